#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/report/image_trace.h"

namespace forerun::cli {
namespace {

char letter_of(ImageTrace::Fate fate) {
  using Fate = ImageTrace::Fate;
  return fate == Fate::kKept       ? 'k'
         : fate == Fate::kRemerged ? 'm'
         : fate == Fate::kRejected ? 'r'
                                   : 't';
}

std::string trace_title(const ImageTrace& trace, const ImageOptions& o, std::int64_t label) {
  return fmt::format("An image of class {} in {} passes instead of {}", label,
                     trace.rounds.size() * (o.two_calls ? 2 : 1), o.steps);
}

std::string trace_title(const ImageTrace& trace, const TokenImageOptions&, std::int64_t label) {
  return fmt::format("An image of class {}: {} tokens in {} passes", label, trace.tokens.size(),
                     trace.rounds.size());
}

template <class Options>
ImageTracePage page_of(const ImageRun& r, const Options& o, const DraftFlags& f, std::int64_t label,
                       const std::string& command) {
  ImageTracePage page;
  page.version = FORERUN_VERSION;
  page.command = command;
  page.title = trace_title(r.trace, o, label);
  page.steps = static_cast<std::uint32_t>(o.steps);
  page.side = r.trace.side;
  std::uint64_t drafted = 0, kept = 0;
  for (const ImageTrace::Round& t : r.trace.rounds) {
    page.rounds.push_back({.first = t.first,
                           .given = t.given,
                           .drafted = t.drafted,
                           .kept = t.kept,
                           .emitted = t.emitted});
    drafted += t.drafted;
    kept += t.kept;
  }
  for (const ImageTrace::Token& t : r.trace.tokens) {
    page.tokens.push_back({.round = t.round,
                           .place = t.place,
                           .fate = letter_of(t.fate),
                           .chain = t.chain,
                           .draft = t.draft,
                           .together = t.together});
  }
  for (const ImageTrace::Preview& s : r.trace.previews) {
    page.previews.push_back({.step = s.step, .png = png_grid(std::span(&s.image, 1), 1)});
  }
  page.facts = {{"drafter", f.drafter},
                {"rule", f.rule + (r.exact ? " (exact)" : " (INEXACT)")},
                {"drafts kept", fmt::format("{} of {}", kept, drafted)},
                {"guidance", fmt::format("{}", o.guidance)}};
  if (page.side > 0) page.facts.emplace_back("steps of a token", fmt::format("{}", o.steps));
  page.facts.emplace_back("drafts a round",
                          fmt::format("{}{}", o.fixed_draft ? "" : "at most ", o.max_draft));
  page.facts.emplace_back("seed", fmt::format("{}", o.seed));
  return page;
}

template <class AnyModel>
void report(const ImageRun& r, const AnyModel& model, const RunFlags& f, const std::string& out) {
  write_out(fmt::format("{}: {} images in {:.1f} s\n", printable(out), r.images.size(), r.seconds));
  const std::string rule = r.exact ? "exact" : styled(stderr, Style::kYellow, "INEXACT");
  std::string end;
  if constexpr (std::is_same_v<AnyModel, TokenImageModel>) {
    end = ", final step " + f.images.tokens.final_step;
  }
  note(styled(stderr, Style::kDim,
              fmt::format("{}, drafter {}, rule {} (", summary(r, model),
                          printable(f.draft.drafter), f.draft.rule)) +
       rule + styled(stderr, Style::kDim, fmt::format("){}, seed {}", end, f.draft.seed)));
  if (r.statistics.drafted > 0 && !f.draft.fixed) {
    note(styled(stderr, Style::kDim,
                "drafted as far as paid; with --fixed-draft the seed makes the same images again"));
  }
}

// Where the images go; held open while they are made.
struct Outputs {
  AtomicFile file;
  std::optional<AtomicFile> trace;
};

template <class AnyModel>
int generate_kind(const RunFlags& f, const ImageFiles& files, Outputs& to, bool json,
                  const Command& command, const AnyModel& model) {
  const ImageDrafter drafter = ImageDrafter::load(f.draft.drafter, model);
  const auto labels = labels_of(f.images, model.classes());
  auto options = image_options(f, model);
  options.trace = to.trace.has_value();
  Progress progress;
  const ImageRun r = forerun::generate_images(model, drafter, labels, options,
                                              watching(progress, steps_name(model)));
  progress.clear();
  if (r.images.empty()) {
    note("forerun: interrupted before the first image was finished; nothing is written");
    return 130;
  }
  const auto columns =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(r.images.size()))));
  to.file.commit(png_grid(r.images, columns));
  if (to.trace) {
    to.trace->commit(
        render_image_trace(page_of(r, options, f.draft, labels.front(), command.line())));
  }
  if (json) {
    nlohmann::json j = to_json(r, model);
    j.update(settings(f, model));
    j["out"] = files.out;
    write_json(j);
  } else {
    report(r, model, f, files.out);
  }
  return r.interrupted ? 130 : 0;
}

}  // namespace

int generate_images(const RunFlags& f, const ImageFiles& files, bool json, const Command& command) {
  if (!command.given("--out")) {
    throw UsageError(
        fmt::format("{} makes images: name their PNG file with --out FILE", f.model.path));
  }
  std::vector<Output> outputs = {{"--out", files.out}};
  if (command.given("--trace")) outputs.push_back({"--trace", files.trace});
  expect_apart(outputs, inputs_of(f));
  Outputs to{.file = AtomicFile(files.out), .trace = std::nullopt};
  if (outputs.size() > 1) to.trace.emplace(files.trace);
  return with_image_model(
      f, [&](const auto& model) { return generate_kind(f, files, to, json, command, model); });
}

}  // namespace forerun::cli
