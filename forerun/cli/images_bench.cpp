#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/provenance.h"

namespace forerun::cli {
namespace {

struct Flags {
  ImageFlags images;
  std::vector<std::string> drafters = {"none", "frozen", "asd"};
  std::vector<std::size_t> lengths = {2, 4, 8, 16, 32};
  bool plain = true, json = false;
};

// Share of drafts that were kept, in ten equal stretches of sampling.
std::vector<double> by_time(const ImageRun& r) {
  constexpr std::size_t kStretches = 10;
  std::vector<double> out;
  for (std::size_t i = 0; i < kStretches; ++i) {
    std::uint64_t examined = 0, kept = 0;
    for (std::size_t k = i * r.steps.size() / kStretches; k < (i + 1) * r.steps.size() / kStretches;
         ++k) {
      examined += r.steps[k].examined;
      kept += r.steps[k].kept;
    }
    out.push_back(examined > 0 ? static_cast<double>(kept) / static_cast<double>(examined) : 0.0);
  }
  return out;
}

double acceptance(const ImageRun& r) {
  std::uint64_t examined = 0, kept = 0;
  for (const StepStatistics& s : r.steps) {
    examined += s.examined;
    kept += s.kept;
  }
  return examined > 0 ? static_cast<double>(kept) / static_cast<double>(examined) : 0.0;
}

// Time of a drafted state over that of a state that the target scored.
double cost_of_draft(const ImageRun& r) {
  if (r.statistics.drafted == 0 || r.states == 0 || r.statistics.seconds.target <= 0.0) return 0.0;
  return r.statistics.seconds.drafter / static_cast<double>(r.statistics.drafted) /
         (r.statistics.seconds.target / static_cast<double>(r.states));
}

class Bench {
 public:
  explicit Bench(const Flags& f)
      : f_(f), model_(load_diffusion(f.images)), labels_(labels_of(f.images, model_)) {}

  int run() {
    if (!f_.json) {
      write_out(fmt::format("{:24} {:>4} {:>10} {:>11} {:>9} {:>6} {:>9} {:>8}\n", "drafter", "L",
                            "efficiency", "acceptance", "states", "cost", "seconds", "speed"));
    }
    nlohmann::json rows = nlohmann::json::array();
    // Plain sampling comes first: the speed of the others is against it.
    std::vector<std::string> drafters = f_.drafters;
    std::erase(drafters, "none");
    if (f_.plain) drafters.insert(drafters.begin(), "none");
    for (const std::string& name : drafters) {
      const ImageDrafter drafter = ImageDrafter::load(name, model_);
      for (const std::size_t length : name == "none" ? std::vector<std::size_t>{1} : f_.lengths) {
        const auto row = measured(drafter, length);
        if (!row) return 130;
        rows.push_back(*row);
      }
    }
    if (f_.json) write_json(document(rows));
    return 0;
  }

 private:
  std::optional<nlohmann::json> measured(const ImageDrafter& drafter, std::size_t length) {
    ImageOptions o = resolve(f_.images);
    o.draft_length = length;
    Progress progress;
    const ImageRun r = generate_images(model_, drafter, labels_, o, watching(progress));
    progress.clear();
    if (r.interrupted) return std::nullopt;
    if (drafter.name() == "none") plain_ = r.seconds;
    const double speed = r.seconds > 0.0 ? plain_ / r.seconds : 0.0;
    const double cost = cost_of_draft(r);
    const double states = static_cast<double>(r.states) / static_cast<double>(r.statistics.outputs);
    if (!f_.json) {
      write_out(fmt::format("{:24} {:>4} {:10.3f} {:11.3f} {:9.2f} {:6.3f} {:9.1f} {:>8}\n",
                            drafter.name(), length_name(length), r.efficiency(), acceptance(r),
                            states, cost, r.seconds,
                            f_.plain ? fmt::format("{:.2f}", speed) : "-"));
    }
    nlohmann::json j = to_json(r);
    j.update({{"drafter", drafter.name()},
              {"draft_length", length_json(length)},
              {"acceptance", acceptance(r)},
              {"acceptance_by_time", by_time(r)},
              {"states_a_transition", states},
              {"draft_cost", cost},
              {"draft_work", drafter.cost()}});
    if (f_.plain) j["speed"] = speed;
    return j;
  }

  nlohmann::json document(const nlohmann::json& rows) const {
    const ImageOptions& o = f_.images.options;
    return {{"model", f_.images.model}, {"cpu", cpu_name()},        {"date", utc_date()},
            {"images", labels_.size()}, {"steps", o.steps},         {"guidance", o.guidance},
            {"rule", f_.images.rule},   {"two_calls", o.two_calls}, {"recall", o.recall},
            {"seed", o.seed},           {"lanes", o.lanes},         {"results", rows}};
  }

  const Flags& f_;
  DiffusionModel model_;
  std::vector<std::int64_t> labels_;
  double plain_ = 0.0;
};

}  // namespace

Action add_bench_images(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand("bench", "Compare drafters of images with plain sampling");
  bind(*command, f->images);
  bind_drafting(*command, f->images);
  command->remove_option(command->get_option("--drafter"));
  command->remove_option(command->get_option("--draft-length"));
  command->add_option("--drafters", f->drafters, "Of them: asd, frozen, self, free:FOLDER")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--draft-lengths", f->lengths,
                   "States that a pass of the model scores; auto: as many as make it faster")
      ->delimiter(',')
      ->transform(auto_length())
      ->capture_default_str();
  command->add_flag("--no-plain{false}", f->plain,
                    "Without plain sampling first; then there is no speed");
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(
      R"(Columns: efficiency, transitions for each pass of the model that had to wait for the one before (1 is plain
sampling); acceptance, share of the examined drafts that were kept; states, how many the model scored for each
transition (what a machine without idle units pays); cost, time of a drafted state over that of a scored one; speed,
wall clock of plain sampling over this.

Examples:
  forerun bench -m dit --drafters frozen,asd,free:free --draft-lengths 4,8 --count 16)");
  return [f] { return Bench(*f).run(); };
}

}  // namespace forerun::cli
