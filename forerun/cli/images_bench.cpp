#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/provenance.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

struct Flags {
  ImageFlags images;
  std::vector<std::string> drafters = {"none", "frozen", "asd"};
  std::vector<std::size_t> lengths = {2, 4, 8, 16, 32};
  bool plain = true, json = false;
};

// A share of kept drafts; null where none was examined.
nlohmann::json share(std::uint64_t kept, std::uint64_t examined) {
  if (examined == 0) return nullptr;
  return static_cast<double>(kept) / static_cast<double>(examined);
}

// In ten equal stretches of sampling.
nlohmann::json by_time(const ImageRun& r) {
  constexpr std::size_t kStretches = 10;
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < kStretches; ++i) {
    std::uint64_t examined = 0, kept = 0;
    for (std::size_t k = i * r.steps.size() / kStretches; k < (i + 1) * r.steps.size() / kStretches;
         ++k) {
      examined += r.steps[k].examined;
      kept += r.steps[k].kept;
    }
    out.push_back(share(kept, examined));
  }
  return out;
}

nlohmann::json by_position(const ImageRun& r) {
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < r.statistics.examined.size(); ++i) {
    out.push_back(share(r.statistics.accepted[i], r.statistics.examined[i]));
  }
  return out;
}

// ".97 .96  -  .85"
std::string shares_text(const nlohmann::json& shares) {
  std::string out;
  for (const nlohmann::json& s : shares) {
    out += s.is_null() ? "     -" : fmt::format(" {:5.3f}", s.get<double>());
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

// Time of a drafted state over that of a state that the target scored; null where drafting takes a
// pass of the target.
nlohmann::json cost_of_draft(const ImageRun& r, const ImageOptions& o) {
  if (o.two_calls) return nullptr;
  if (r.statistics.drafted == 0 || r.states == 0 || r.statistics.seconds.target <= 0.0) return 0.0;
  return r.statistics.seconds.drafter / static_cast<double>(r.statistics.drafted) /
         (r.statistics.seconds.target / static_cast<double>(r.states));
}

class Bench {
 public:
  explicit Bench(const Flags& f)
      : f_(f), model_(load_diffusion(f.images)), labels_(labels_of(f.images, model_)) {
    // Plain sampling comes first: the speed of the others is against it.
    if (f.plain) drafters_.push_back(ImageDrafter::load("none", model_));
    for (const std::string& name : f.drafters) {
      if (name != "none") drafters_.push_back(ImageDrafter::load(name, model_));
    }
    for (const ImageDrafter& d : drafters_) width_ = std::max(width_, d.name().size());
  }

  int run() {
    if (!f_.json) {
      write_out(fmt::format("{:{}} {:>4} {:>10} {:>11} {:>9} {:>6} {:>9} {:>8}\n", "drafter",
                            width_, "L", "efficiency", "acceptance", "states", "cost", "seconds",
                            "speed"));
    }
    nlohmann::json rows = nlohmann::json::array();
    for (const ImageDrafter& drafter : drafters_) {
      const bool plain = drafter.name() == "none";
      for (const std::size_t length : plain ? std::vector<std::size_t>{1} : f_.lengths) {
        const auto row = measured(drafter, length);
        if (!row) return 130;
        rows.push_back(*row);
      }
    }
    if (f_.json) {
      write_json(document(rows));
    } else {
      write_out(kept_drafts(rows));
    }
    return 0;
  }

 private:
  std::optional<nlohmann::json> measured(const ImageDrafter& drafter, std::size_t length) {
    ImageOptions o = resolve(f_.images, model_);
    o.draft_length = length;
    o.pictures = false;
    Progress progress;
    const ImageRun r = generate_images(model_, drafter, labels_, o, watching(progress));
    progress.clear();
    if (r.interrupted) return std::nullopt;
    if (drafter.name() == "none") plain_ = r.seconds;
    const double speed = r.seconds > 0.0 ? plain_ / r.seconds : 0.0;
    const nlohmann::json cost = cost_of_draft(r, o);
    const double states = static_cast<double>(r.states) / static_cast<double>(r.statistics.outputs);
    if (!f_.json) {
      write_out(fmt::format("{:{}} {:>4} {:10.3f} {:11.3f} {:9.2f} {:>6} {:9.1f} {:>8}\n",
                            drafter.name(), width_, length_name(length), r.efficiency(),
                            acceptance(r), states,
                            cost.is_null() ? "-" : fmt::format("{:.3f}", cost.get<double>()),
                            r.seconds, f_.plain ? fmt::format("{:.2f}", speed) : "-"));
    }
    nlohmann::json j = to_json(r);
    j.update({{"drafter", drafter.name()},
              {"draft_length", length_json(length)},
              {"acceptance", acceptance(r)},
              {"acceptance_by_position", by_position(r)},
              {"acceptance_by_time", by_time(r)},
              {"states_a_transition", states},
              {"draft_cost", cost},
              {"draft_work", drafter.cost()}});
    if (f_.plain) j["speed"] = speed;
    return j;
  }

  nlohmann::json document(const nlohmann::json& rows) const {
    nlohmann::json j = settings(f_.images, model_);
    for (const char* each_rows : {"drafter", "draft_length"}) j.erase(each_rows);
    j.update(
        {{"cpu", cpu_name()}, {"date", utc_date()}, {"images", labels_.size()}, {"results", rows}});
    return j;
  }

  std::string kept_drafts(const nlohmann::json& rows) const {
    std::string out = "\nshare of the examined drafts that were kept\n";
    for (const nlohmann::json& row : rows) {
      if (row.at("drafted") == 0) continue;
      const nlohmann::json& length = row.at("draft_length");
      out += fmt::format("{:{}} {:>4}  by position{}\n{:{}}  by tenth of sampling{}\n",
                         row.at("drafter").get<std::string>(), width_,
                         length.is_string() ? length.get<std::string>() : length.dump(),
                         shares_text(row.at("acceptance_by_position")), "", width_ + 5,
                         shares_text(row.at("acceptance_by_time")));
    }
    return out;
  }

  const Flags& f_;
  DiffusionModel model_;
  std::vector<std::int64_t> labels_;
  std::vector<ImageDrafter> drafters_;
  std::size_t width_ = 7;  // of the first column
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
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--no-plain{false}", f->plain,
                    "Without plain sampling first; then there is no speed");
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(
      R"(Columns: efficiency, transitions for each pass of the model that had to wait for the one before (1 is plain
sampling); acceptance, share of the examined drafts that were kept; states, how many the model scored for each
transition (what a machine without idle units pays); cost, time of a drafted state over that of a scored one; speed,
wall clock of plain sampling over this. Below, which drafts were kept: by their place in a draft, and along sampling.

Examples:
  forerun bench -m dit --drafters frozen,asd,free:free --draft-lengths 4,8 --count 16)");
  return [f] { return Bench(*f).run(); };
}

}  // namespace forerun::cli
