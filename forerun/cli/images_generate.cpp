#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/new_file.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/report/image_trace.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

struct Flags {
  ImageFlags images;
  std::string out, trace;
  bool json = false;
};

ImageTracePage page_of(const ImageRun& r, const ImageOptions& o, const ImageFlags& f,
                       std::int64_t label, const CLI::App& command) {
  ImageTracePage page;
  page.version = FORERUN_VERSION;
  page.command = command_line(command);
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
      {"states a pass", o.draft_length == 0 ? "as many as pay" : fmt::format("{}", o.draft_length)},
      {"seed", fmt::format("{}", o.seed)}};
  return page;
}

int run(const Flags& f, const CLI::App& command) {
  const DiffusionModel model = load_diffusion(f.images);
  const ImageDrafter drafter = ImageDrafter::load(f.images.drafter, model);
  const auto labels = labels_of(f.images, model);
  ImageOptions options = resolve(f.images, model);
  options.trace = !f.trace.empty();
  NewFile file(f.out);
  std::optional<NewFile> trace;
  if (options.trace) trace.emplace(f.trace);
  Progress progress;
  const ImageRun r = generate_images(model, drafter, labels, options, watching(progress));
  progress.clear();
  if (r.images.empty()) {
    note("forerun: interrupted before the first image was finished; nothing is written");
    return 130;
  }
  const auto columns =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(r.images.size()))));
  file.commit(png_grid(r.images, columns));
  if (trace) {
    trace->commit(render_image_trace(page_of(r, options, f.images, labels.front(), command)));
  }
  if (f.json) {
    nlohmann::json j = to_json(r);
    j.update(settings(f.images, model));
    j["out"] = f.out;
    write_json(j);
  } else {
    write_out(fmt::format("{}: {} images in {:.1f} s\n", f.out, r.images.size(), r.seconds));
    const std::string rule = r.exact ? "exact" : styled(stderr, Style::kYellow, "INEXACT");
    note(styled(
             stderr, Style::kDim,
             fmt::format("{}, drafter {}, rule {} (", summary(r), drafter.name(), f.images.rule)) +
         rule + styled(stderr, Style::kDim, fmt::format("), seed {}", options.seed)));
    if (r.statistics.drafted > 0 && options.draft_length == 0) {
      note(styled(stderr, Style::kDim,
                  "drafted as far as paid; -L 8 makes images that the seed makes again"));
    }
  }
  return r.interrupted ? 130 : 0;
}

}  // namespace

Action add_generate_images(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand("generate", "Sample images of a diffusion model");
  bind(*command, f->images);
  bind_drafting(*command, f->images);
  command->add_option("-o,--out", f->out, "PNG file of all images, as a grid")->required();
  command->add_option("--vae", f->images.options.vae,
                      "Folder of the decoder, where the model's images are latents");
  command->add_option(
      "--trace", f->trace,
      "HTML page of how the first image came about: every step, drafts kept and not");
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(R"(Examples:
  forerun generate -m dit --out grid.png
  forerun generate -m dit --class 3,7 --count 8 --cfg 1.5 --drafter free:free --out grid.png
  forerun generate -m DiT-XL-2-256 --class 207 --vae sd-vae-ft-ema --out dog.png

Drafting changes how many passes of the model follow each other, never the law of the images.)");
  return [f, command] { return run(*f, *command); };
}

}  // namespace forerun::cli
