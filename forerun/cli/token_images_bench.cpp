#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/token_images.h"

namespace forerun::cli {
namespace {

// A line of the table.
struct Entrant {
  TokenImageDrafter drafter;
  TokenImageOptions options;
  std::string drafts;                    // as the table shows them
  std::vector<TokenImageRun> runs = {};  // by repeat

  bool plain() const { return drafter.name() == "none"; }
};

TokenImageOptions drafting(TokenImageOptions o, const std::string& drafts) {
  o.pictures = false;
  o.fixed_draft = drafts != "auto";
  if (!o.fixed_draft) return o;
  const char* const end = drafts.data() + drafts.size();
  const auto read = std::from_chars(drafts.data(), end, o.max_draft);
  if (read.ec != std::errc() || read.ptr != end) {
    throw UsageError(fmt::format("--drafts: '{}' is no number and not auto", drafts));
  }
  return o;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Speed against plain sampling: of all images, the median over repeats; of the worst single image,
// the median over repeats of each image's ratio.
struct Speed {
  double all = 0.0, worst = 0.0;
};
Speed speed_of(const Entrant& e, const Entrant& plain) {
  std::vector<double> all;
  std::vector<std::vector<double>> each(plain.runs.front().image_seconds.size());
  for (std::size_t r = 0; r < e.runs.size(); ++r) {
    all.push_back(plain.runs[r].seconds / e.runs[r].seconds);
    for (std::size_t i = 0; i < each.size(); ++i) {
      each[i].push_back(plain.runs[r].image_seconds[i] / e.runs[r].image_seconds[i]);
    }
  }
  Speed out{.all = median(std::move(all)), .worst = 1e9};
  for (auto& one : each) out.worst = std::min(out.worst, median(std::move(one)));
  return out;
}

// All entrants sample the images a few tokens at a time: the one with the fewest is next, so that
// what the machine does meanwhile meets them all at the same place. False if interrupted.
bool run_abreast(const TokenImageModel& model, std::span<const std::int64_t> labels,
                 std::vector<Entrant>& field, std::size_t first, Progress& progress) {
  struct Turn {
    TokenImageGeneration images;
    bool running = true;
  };
  std::vector<Turn> turns;
  turns.reserve(field.size());
  for (const Entrant& e : field) {
    turns.push_back(
        {{model, e.drafter, labels, e.options, {.go_on = [] { return !interrupted(); }}}});
  }
  // Long enough that an entrant finds its weights in the cache again.
  const std::uint64_t turn = 16 * std::min(field.front().options.batch_size, labels.size());
  while (true) {
    Turn* least = nullptr;
    for (std::size_t k = 0; k < turns.size(); ++k) {
      Turn& t = turns[(k + first) % turns.size()];
      if (t.running && (least == nullptr || t.images.tokens() < least->images.tokens())) least = &t;
    }
    if (least == nullptr) break;
    least->running = least->images.advance(turn);
    if (interrupted()) return false;
    progress.show(fmt::format("{} of {} tokens", least->images.tokens(),
                              labels.size() * static_cast<std::size_t>(model.tokens())));
  }
  for (std::size_t k = 0; k < field.size(); ++k) field[k].runs.push_back(turns[k].images.finish());
  return true;
}

nlohmann::json line_of(const Entrant& e, const Entrant& plain) {
  const TokenImageRun& r = e.runs.front();
  std::vector<double> seconds;
  for (const TokenImageRun& run : e.runs) seconds.push_back(run.seconds);
  const Speed speed = speed_of(e, plain);
  const auto tokens = static_cast<double>(r.statistics.outputs);
  nlohmann::json j = to_json(r);
  j.update({{"drafter", e.drafter.name()},
            {"drafts", e.drafts},
            {"max_draft", e.options.max_draft},
            {"fixed_draft", e.options.fixed_draft},
            {"seconds", median(std::move(seconds))},
            {"speedup_vs_none", speed.all},
            {"worst_image", speed.worst},
            {"rows_a_token", static_cast<double>(r.head_rows) / tokens},
            {"calls_a_token", static_cast<double>(r.head_calls) / tokens},
            {"draft_work", e.drafter.cost()}});
  return j;
}

}  // namespace

int bench_token_images(const RunFlags& f, const ImageBench& bench, int repeats, bool json) {
  const TokenImageOptions options = token_options(f);
  const TokenImageModel model = load_token_images(f);
  const auto labels = labels_of(f.images, model.classes());
  std::vector<Entrant> field;
  field.push_back({.drafter = TokenImageDrafter::load("none", model),
                   .options = drafting(options, "auto"),
                   .drafts = "-"});
  std::vector<std::string> drafts = bench.drafts;
  if (drafts.empty()) {
    drafts = {f.draft.fixed ? std::to_string(options.max_draft) : std::string("auto")};
  }
  for (const std::string& name : bench.drafters) {
    const TokenImageDrafter drafter = TokenImageDrafter::load(name, model);
    for (const std::string& one : name == "none" ? std::vector<std::string>{"auto"} : drafts) {
      field.push_back({.drafter = drafter,
                       .options = drafting(options, one),
                       .drafts = name == "none" ? "again" : one});
    }
  }
  Progress progress;
  for (std::size_t r = 0; r < static_cast<std::size_t>(repeats); ++r) {
    if (!run_abreast(model, labels, field, r, progress)) return 130;
  }
  progress.clear();
  nlohmann::json rows = nlohmann::json::array();
  std::size_t width = 7;
  for (const Entrant& e : field) {
    rows.push_back(line_of(e, field.front()));
    width = std::max(width, e.drafter.name().size());
  }
  if (json) {
    nlohmann::json j = settings(f, model);
    for (const char* each_rows : {"drafter", "max_draft", "fixed_draft"}) j.erase(each_rows);
    j.update({{"cpu", machine().cpu},
              {"date", utc_date()},
              {"images", labels.size()},
              {"repeats", repeats},
              {"results", rows}});
    write_json(j);
    return 0;
  }
  std::string out = fmt::format("{:{}} {:>5} {:>6} {:>10} {:>8} {:>6} {:>6} {:>10} {:>7} {:>7}\n",
                                "drafter", width, "k", "tau", "acceptance", "remerged", "rows",
                                "calls", "s an image", "speed", "worst");
  for (const nlohmann::json& j : rows) {
    const auto share = [&](const char* name, double of) {
      return of > 0.0 ? j.at(name).get<double>() / of : 0.0;
    };
    double kept = 0.0;
    for (const auto& n : j.at("accepted")) kept += n.get<double>();
    out += fmt::format(
        "{:{}} {:>5} {:6.2f} {:10.3f} {:8.3f} {:6.1f} {:6.1f} {:10.3f} {:7.2f} {:7.2f}\n",
        printable(j.at("drafter").get<std::string>()), width, j.at("drafts").get<std::string>(),
        j.at("tau").get<double>(), j.at("acceptance").get<double>(), share("remerged", kept),
        j.at("rows_a_token").get<double>(), j.at("calls_a_token").get<double>(),
        share("seconds", static_cast<double>(labels.size())), j.at("speedup_vs_none").get<double>(),
        j.at("worst_image").get<double>());
  }
  write_out(out + fmt::format("{} images, {} at a time, {} in turns, rule {}{}, seed {}\n",
                              labels.size(), options.batch_size, repeats, name_of(options.rule),
                              is_exact(options.rule) ? "" : " (INEXACT)", options.seed));
  return 0;
}

}  // namespace forerun::cli
