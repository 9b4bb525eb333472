#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/provenance.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

// How far a line of the table drafts.
struct Drafts {
  std::uint32_t most = 0;
  bool fixed = true;

  std::string text() const {
    if (fixed) return fmt::format("{}", most);
    return most == ImageOptions().max_draft ? "auto" : fmt::format("<={}", most);
  }
};

std::vector<Drafts> drafts_of(const ImageBench& bench, const DraftFlags& f) {
  if (bench.drafts.empty()) return {{.most = f.max_draft.value_or(0), .fixed = f.fixed}};
  std::vector<Drafts> out;
  for (const std::string& text : bench.drafts) {
    Drafts one{.most = ImageOptions().max_draft, .fixed = text != "auto"};
    if (one.fixed) {
      const char* const end = text.data() + text.size();
      const auto read = std::from_chars(text.data(), end, one.most);
      if (read.ec != std::errc() || read.ptr != end) {
        throw UsageError(fmt::format("--drafts: '{}' is no number and not auto", text));
      }
    }
    out.push_back(one);
  }
  return out;
}

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
  Bench(const RunFlags& f, const ImageBench& bench, bool json)
      : f_(f),
        drafts_(drafts_of(bench, f.draft)),
        with_plain_(bench.plain),
        json_(json),
        model_(load_diffusion(f)),
        labels_(labels_of(f.images, model_.classes())) {
    // Plain sampling comes first: the speed of the others is against it.
    if (with_plain_) drafters_.push_back(ImageDrafter::load("none", model_));
    for (const std::string& name : bench.drafters) {
      if (name != "none") drafters_.push_back(ImageDrafter::load(name, model_));
    }
    for (const ImageDrafter& d : drafters_) width_ = std::max(width_, d.name().size());
  }

  int run() {
    if (!json_) {
      write_out(fmt::format("{:{}} {:>4} {:>10} {:>11} {:>9} {:>6} {:>9} {:>8}\n", "drafter",
                            width_, "k", "efficiency", "acceptance", "states", "cost", "seconds",
                            "speed"));
    }
    nlohmann::json rows = nlohmann::json::array();
    for (const ImageDrafter& drafter : drafters_) {
      const bool plain = drafter.name() == "none";
      for (const Drafts& drafts : plain ? std::vector<Drafts>{Drafts()} : drafts_) {
        const auto row = measured(drafter, drafts);
        if (!row) return 130;
        rows.push_back(*row);
      }
    }
    if (json_) {
      write_json(document(rows));
    } else {
      write_out(kept_drafts(rows));
    }
    return 0;
  }

 private:
  std::optional<nlohmann::json> measured(const ImageDrafter& drafter, const Drafts& drafts) {
    ImageOptions o = image_options(f_, model_);
    o.max_draft = drafts.most;
    o.fixed_draft = drafts.fixed;
    o.pictures = false;
    Progress progress;
    const ImageRun r = forerun::generate_images(model_, drafter, labels_, o, watching(progress));
    progress.clear();
    if (r.interrupted) return std::nullopt;
    if (drafter.name() == "none") plain_ = r.seconds;
    const double speed = r.seconds > 0.0 ? plain_ / r.seconds : 0.0;
    const nlohmann::json cost = cost_of_draft(r, o);
    const double states = static_cast<double>(r.states) / static_cast<double>(r.statistics.outputs);
    if (!json_) {
      write_out(fmt::format("{:{}} {:>4} {:10.3f} {:11.3f} {:9.2f} {:>6} {:9.1f} {:>8}\n",
                            printable(drafter.name()), width_, drafts.text(), r.efficiency(),
                            acceptance(r), states,
                            cost.is_null() ? "-" : fmt::format("{:.3f}", cost.get<double>()),
                            r.seconds, with_plain_ ? fmt::format("{:.2f}", speed) : "-"));
    }
    nlohmann::json j = to_json(r);
    j.update({{"drafter", drafter.name()},
              {"max_draft", drafts.most},
              {"fixed_draft", drafts.fixed},
              {"acceptance", acceptance(r)},
              {"acceptance_by_position", by_position(r)},
              {"acceptance_by_time", by_time(r)},
              {"states_a_transition", states},
              {"draft_cost", cost},
              {"draft_work", drafter.cost()}});
    if (with_plain_) j["speed"] = j["speedup_vs_none"] = speed;
    return j;
  }

  nlohmann::json document(const nlohmann::json& rows) const {
    nlohmann::json j = settings(f_, model_);
    for (const char* each_rows : {"drafter", "max_draft", "fixed_draft"}) j.erase(each_rows);
    j.update({{"cpu", machine().cpu},
              {"date", utc_date()},
              {"images", labels_.size()},
              {"results", rows}});
    return j;
  }

  std::string kept_drafts(const nlohmann::json& rows) const {
    std::string out = "\nshare of the examined drafts that were kept\n";
    for (const nlohmann::json& row : rows) {
      if (row.at("drafted") == 0) continue;
      const Drafts drafts{row.at("max_draft"), row.at("fixed_draft")};
      out += fmt::format("{:{}} {:>4}  by position{}\n{:{}}  by tenth of sampling{}\n",
                         printable(row.at("drafter").get<std::string>()), width_, drafts.text(),
                         shares_text(row.at("acceptance_by_position")), "", width_ + 5,
                         shares_text(row.at("acceptance_by_time")));
    }
    return out;
  }

  const RunFlags& f_;
  std::vector<Drafts> drafts_;
  bool with_plain_, json_;
  DiffusionModel model_;
  std::vector<std::int64_t> labels_;
  std::vector<ImageDrafter> drafters_;
  std::size_t width_ = 7;  // of the first column
  double plain_ = 0.0;
};

}  // namespace

int bench_images(const RunFlags& f, const ImageBench& bench, bool json) {
  return Bench(f, bench, json).run();
}

}  // namespace forerun::cli
