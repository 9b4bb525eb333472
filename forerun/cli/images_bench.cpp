#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/provenance.h"

namespace forerun::cli {
namespace {

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

// Time of a drafted state over that of a state that the target scored; null where drafting takes a
// pass of the target.
nlohmann::json cost_of_draft(const ImageRun& r, const ImageOptions& o) {
  if (o.two_calls) return nullptr;
  if (r.statistics.drafted == 0 || r.states == 0 || r.statistics.seconds.target <= 0.0) return 0.0;
  return r.statistics.seconds.drafter / static_cast<double>(r.statistics.drafted) /
         (r.statistics.seconds.target / static_cast<double>(r.states));
}

// What a run of either kind is measured by, beside its speed.
nlohmann::json measures(const ImageRun& r, const ImageOptions& o) {
  return {{"acceptance", r.statistics.acceptance()},
          {"acceptance_by_position", by_position(r)},
          {"acceptance_by_time", by_time(r)},
          {"states_a_transition",
           static_cast<double>(r.states) / static_cast<double>(r.statistics.outputs)},
          {"draft_cost", cost_of_draft(r, o)}};
}

nlohmann::json measures(const ImageRun& r, const TokenImageOptions&) {
  const auto tokens = static_cast<double>(r.statistics.outputs);
  return {{"remerged_share", share(r.remerged, r.statistics.kept())},
          {"rows_a_token", static_cast<double>(r.head_rows) / tokens},
          {"calls_a_token", static_cast<double>(r.head_calls) / tokens}};
}

// A column of the table: digits after the point, and the field.
struct Column {
  const char* title;
  int digits;
  const char* field;
};
constexpr Column kStepColumns[] = {{"efficiency", 3, "efficiency"},
                                   {"acceptance", 3, "acceptance"},
                                   {"states", 2, "states_a_transition"},
                                   {"cost", 3, "draft_cost"}};
constexpr Column kTokenColumns[] = {{"tau", 2, "tau"},
                                    {"acceptance", 3, "acceptance"},
                                    {"remerged", 3, "remerged_share"},
                                    {"rows", 1, "rows_a_token"},
                                    {"calls", 1, "calls_a_token"}};
constexpr Column kColumns[] = {
    {"s an image", 3, "seconds_an_image"}, {"speed", 2, "speed"}, {"worst", 2, "worst_image"}};
std::span<const Column> columns_of(const DiffusionModel&) { return kStepColumns; }
std::span<const Column> columns_of(const TokenImageModel&) { return kTokenColumns; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class AnyModel>
class Bench {
 public:
  using Options = typename AnyModel::Options;

  Bench(const RunFlags& f, const ImageBench& bench, const AnyModel& model)
      : f_(f),
        bench_(bench),
        model_(model),
        options_(image_options(f, model)),
        labels_(labels_of(f.images, model.classes())) {
    options_.pictures = false;
    // Plain sampling comes first: the speed of the others is against it.
    if (bench.plain) add("none", "0", "-");
    std::vector<std::string> drafts = bench.drafts;
    if (drafts.empty()) {
      drafts = {f.draft.fixed ? std::to_string(options_.max_draft) : std::string("auto")};
    }
    for (const std::string& name : bench.drafters) {
      if (name == "none") {
        add(name, "0", "again");
        continue;
      }
      for (const std::string& one : drafts) add(name, one, "");
    }
  }

  int run(bool json) {
    Progress progress;
    for (int r = 0; r < bench_.repeats; ++r) {
      if (!run_abreast(static_cast<std::size_t>(r), progress)) return 130;
    }
    progress.clear();
    nlohmann::json rows = nlohmann::json::array();
    for (const Entrant& e : field_) rows.push_back(row_of(e));
    if (json) {
      write_json(document(rows));
    } else {
      write_out(table(rows));
    }
    return 0;
  }

 private:
  // A line of the table.
  struct Entrant {
    ImageDrafter drafter;
    Options options;
    std::string drafts;               // as the table shows them
    std::vector<ImageRun> runs = {};  // by repeat
  };

  void add(const std::string& name, const std::string& drafts, std::string shown) {
    Options o = options_;
    o.fixed_draft = drafts != "auto";
    if (o.fixed_draft) {
      const char* const end = drafts.data() + drafts.size();
      const auto read = std::from_chars(drafts.data(), end, o.max_draft);
      if (read.ec != std::errc() || read.ptr != end) {
        throw UsageError(fmt::format("--drafts: '{}' is no number and not auto", drafts));
      }
    }
    if (shown.empty()) {
      shown = o.fixed_draft || o.max_draft == Options().max_draft
                  ? drafts
                  : fmt::format("<={}", o.max_draft);
    }
    field_.push_back({.drafter = ImageDrafter::load(name, model_), .options = o, .drafts = shown});
  }

  // All entrants sample the images a few steps at a time: the one with the fewest is next, so that
  // what the machine does meanwhile meets them all at the same place. False if interrupted.
  bool run_abreast(std::size_t first, Progress& progress) {
    struct Turn {
      ImageGeneration images;
      bool running = true;
    };
    std::vector<Turn> turns;
    turns.reserve(field_.size());
    std::uint64_t all = 0;
    const ImageListener listener{.on_image = {},
                                 .on_progress = [&](const ImageProgress& p) { all = p.of_steps; },
                                 .go_on = [] { return !interrupted(); }};
    for (const Entrant& e : field_) {
      turns.push_back({{model_, e.drafter, labels_, e.options, listener}});
    }
    // Long enough that an entrant finds its weights in the cache again.
    const std::uint64_t turn = 16 * std::min(options_.batch_size, labels_.size());
    while (true) {
      Turn* least = nullptr;
      for (std::size_t k = 0; k < turns.size(); ++k) {
        Turn& t = turns[(k + first) % turns.size()];
        if (!t.running) continue;
        if (least == nullptr || t.images.outputs() < least->images.outputs()) least = &t;
      }
      if (least == nullptr) break;
      least->running = least->images.advance(turn);
      if (interrupted()) return false;
      progress.show(fmt::format("{} of {} {}", least->images.outputs(), all, steps_name(model_)));
    }
    for (std::size_t k = 0; k < field_.size(); ++k) {
      field_[k].runs.push_back(turns[k].images.finish());
    }
    return true;
  }

  // Speed against plain sampling: of all images, the median over repeats; of the worst single
  // image, the median over repeats of each image's ratio.
  void add_speed(const Entrant& e, nlohmann::json& j) const {
    const Entrant& plain = field_.front();
    std::vector<double> all;
    std::vector<std::vector<double>> each(labels_.size());
    for (std::size_t r = 0; r < e.runs.size(); ++r) {
      all.push_back(plain.runs[r].seconds / e.runs[r].seconds);
      for (std::size_t i = 0; i < each.size(); ++i) {
        each[i].push_back(plain.runs[r].image_seconds[i] / e.runs[r].image_seconds[i]);
      }
    }
    double worst = 1e9;
    for (auto& one : each) worst = std::min(worst, median(std::move(one)));
    j["speed"] = j["speedup_vs_none"] = median(std::move(all));
    j["worst_image"] = worst;
  }

  nlohmann::json row_of(const Entrant& e) const {
    const ImageRun& r = e.runs.front();
    std::vector<double> seconds;
    for (const ImageRun& run : e.runs) seconds.push_back(run.seconds);
    nlohmann::json j = to_json(r, model_);
    j.update(measures(r, e.options));
    j.update({{"drafter", e.drafter.name()},
              {"drafts", e.drafts},
              {"max_draft", e.options.max_draft},
              {"fixed_draft", e.options.fixed_draft},
              {"seconds", median(std::move(seconds))},
              {"draft_work", e.drafter.cost()}});
    if (bench_.plain) add_speed(e, j);
    return j;
  }

  nlohmann::json document(const nlohmann::json& rows) const {
    nlohmann::json j = settings(f_, model_);
    for (const char* each_rows : {"drafter", "max_draft", "fixed_draft"}) j.erase(each_rows);
    j.update({{"cpu", machine().cpu},
              {"date", utc_date()},
              {"images", labels_.size()},
              {"repeats", bench_.repeats},
              {"results", rows}});
    return j;
  }

  std::string table(const nlohmann::json& rows) const {
    std::size_t width = 7;  // of the first column
    for (const Entrant& e : field_) width = std::max(width, e.drafter.name().size());
    std::vector<Column> columns(columns_of(model_).begin(), columns_of(model_).end());
    columns.insert(columns.end(), std::begin(kColumns), std::end(kColumns));
    std::string out = fmt::format("{:{}} {:>5}", "drafter", width, "k");
    for (const Column& c : columns) out += fmt::format(" {:>10}", c.title);
    out += "\n";
    for (nlohmann::json row : rows) {
      row["seconds_an_image"] =
          row.at("seconds").get<double>() / static_cast<double>(labels_.size());
      out += fmt::format("{:{}} {:>5}", printable(row.at("drafter").get<std::string>()), width,
                         row.at("drafts").get<std::string>());
      for (const Column& c : columns) {
        const auto value = row.find(c.field);
        out += value == row.end() || value->is_null()
                   ? fmt::format(" {:>10}", "-")
                   : fmt::format(" {:10.{}f}", value->template get<double>(), c.digits);
      }
      out += "\n";
    }
    const bool exact = field_.back().runs.front().exact;
    out += fmt::format("{} images, {} at a time, {} in turns, rule {}{}, seed {}\n", labels_.size(),
                       options_.batch_size, bench_.repeats, f_.draft.rule,
                       exact ? "" : " (INEXACT)", options_.seed);
    return out + kept_drafts(rows, width);
  }

  // Where along an image, and a draft, they were kept.
  static std::string kept_drafts(const nlohmann::json& rows, std::size_t width) {
    std::string out;
    for (const nlohmann::json& row : rows) {
      if (row.at("drafted") == 0 || !row.contains("acceptance_by_time")) continue;
      out += fmt::format("{:{}} {:>5}  by position{}\n{:{}}  by tenth of sampling{}\n",
                         printable(row.at("drafter").get<std::string>()), width,
                         row.at("drafts").get<std::string>(),
                         shares_text(row.at("acceptance_by_position")), "", width + 6,
                         shares_text(row.at("acceptance_by_time")));
    }
    return out.empty() ? out : "\nshare of the examined drafts that were kept\n" + out;
  }

  const RunFlags& f_;
  const ImageBench& bench_;
  AnyModel model_;
  Options options_;
  std::vector<std::int64_t> labels_;
  std::vector<Entrant> field_;
};

}  // namespace

int bench_images(const RunFlags& f, const ImageBench& bench, bool json) {
  return with_image_model(f, [&](const auto& model) { return Bench(f, bench, model).run(json); });
}

}  // namespace forerun::cli
