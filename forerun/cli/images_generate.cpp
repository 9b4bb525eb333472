#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/report/image_trace.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

ImageTracePage page_of(const ImageRun& r, const ImageOptions& o, const DraftFlags& f,
                       std::int64_t label, const std::string& command) {
  ImageTracePage page;
  page.version = FORERUN_VERSION;
  page.command = command;
  page.steps = static_cast<std::uint32_t>(o.steps);
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
  for (const ImageTrace::Prediction& s : r.trace.predictions) {
    page.predictions.push_back({.step = s.step, .png = png_grid(std::span(&s.image, 1), 1)});
  }
  page.title = fmt::format("An image of class {} in {} passes instead of {}", label,
                           r.trace.rounds.size() * (o.two_calls ? 2 : 1), o.steps);
  page.facts = {
      {"drafter", f.drafter},
      {"rule", f.rule + (r.exact ? " (exact)" : " (INEXACT)")},
      {"drafts kept", fmt::format("{} of {}", kept, drafted)},
      {"guidance", fmt::format("{}", o.guidance)},
      {"drafts a round", fmt::format("{}{}", o.fixed_draft ? "" : "at most ", o.max_draft)},
      {"seed", fmt::format("{}", o.seed)}};
  return page;
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
  AtomicFile file(files.out);
  std::optional<AtomicFile> trace;
  if (outputs.size() > 1) trace.emplace(files.trace);
  const DiffusionModel model = load_diffusion(f);
  const ImageDrafter drafter = ImageDrafter::load(f.draft.drafter, model);
  const auto labels = labels_of(f.images, model.classes());
  ImageOptions options = image_options(f, model);
  options.trace = trace.has_value();
  Progress progress;
  const ImageRun r = forerun::generate_images(model, drafter, labels, options, watching(progress));
  progress.clear();
  if (r.images.empty()) {
    note("forerun: interrupted before the first image was finished; nothing is written");
    return 130;
  }
  const auto columns =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(r.images.size()))));
  file.commit(png_grid(r.images, columns));
  if (trace) {
    trace->commit(render_image_trace(page_of(r, options, f.draft, labels.front(), command.line())));
  }
  if (json) {
    nlohmann::json j = to_json(r);
    j.update(settings(f, model));
    j["out"] = files.out;
    write_json(j);
  } else {
    write_out(fmt::format("{}: {} images in {:.1f} s\n", printable(files.out), r.images.size(),
                          r.seconds));
    const std::string rule = r.exact ? "exact" : styled(stderr, Style::kYellow, "INEXACT");
    note(styled(stderr, Style::kDim,
                fmt::format("{}, drafter {}, rule {} (", summary(r), printable(drafter.name()),
                            f.draft.rule)) +
         rule + styled(stderr, Style::kDim, fmt::format("), seed {}", options.seed)));
    if (r.statistics.drafted > 0 && !options.fixed_draft) {
      note(styled(
          stderr, Style::kDim,
          "drafted as far as paid; with --fixed-draft the seed makes the same images again"));
    }
  }
  return r.interrupted ? 130 : 0;
}

}  // namespace forerun::cli
