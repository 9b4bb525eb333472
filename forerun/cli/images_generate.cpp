#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/new_file.h"

namespace forerun::cli {
namespace {

struct Flags {
  ImageFlags images;
  std::string out;
  bool json = false;
};

int run(const Flags& f) {
  const DiffusionModel model = load_diffusion(f.images);
  const ImageDrafter drafter = ImageDrafter::load(f.images.drafter, model);
  const auto labels = labels_of(f.images, model);
  const ImageOptions options = resolve(f.images);
  NewFile file(f.out);
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
  if (f.json) {
    nlohmann::json j = to_json(r);
    j.update({{"out", f.out},
              {"drafter", drafter.name()},
              {"rule", f.images.rule},
              {"draft_length", options.draft_length},
              {"two_calls", options.two_calls},
              {"steps", options.steps},
              {"guidance", options.guidance},
              {"seed", options.seed}});
    write_json(j);
  } else {
    write_out(fmt::format("{}: {} images in {:.1f} s\n", f.out, r.images.size(), r.seconds));
    const std::string rule = r.exact ? "exact" : styled(stderr, Style::kYellow, "INEXACT");
    note(styled(stderr, Style::kDim,
                fmt::format("{}, drafter {}, rule {} (", summary(r, r.images.size()),
                            drafter.name(), f.images.rule)) +
         rule + styled(stderr, Style::kDim, fmt::format("), seed {}", options.seed)));
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
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(R"(Examples:
  forerun generate -m dit --out grid.png
  forerun generate -m dit --class 3,7 --count 8 --cfg 1.5 --drafter free:free --out grid.png
  forerun generate -m DiT-XL-2-256 --class 207 --vae sd-vae-ft-ema --guided-channels 3 --out dog.png

Drafting changes how many passes of the model follow each other, never the law of the images.)");
  return [f] { return run(*f); };
}

}  // namespace forerun::cli
