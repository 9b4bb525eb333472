#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainDitFlags {
  std::string data;
  DitTraining dit;
  TrainingFlags training;
};

}  // namespace

void add_train_dit(Command& train) {
  auto f = std::make_shared<TrainDitFlags>();
  Command& app = train.add_command(
      "dit", "A class-conditional Diffusion Transformer on images (arXiv:2212.09748)");
  bind_image_training(app, f->training, f->data, {.epochs = 20.0});
  app.add("--depth", f->dit.depth, "Blocks");
  app.add("--hidden", f->dit.hidden, "Width");
  app.add("--heads", f->dit.heads, "Attention heads");
  app.add("--patch", f->dit.patch, "Side of a patch, in pixels");
  app.add("--side", f->dit.side,
          "Side that images are padded to, 0 = their own, to a multiple of the patch");
  app.add("--drop", f->dit.drop, "Share of the images whose class is dropped",
          {.least = 0.0, .most = 1.0});
  app.add("--no-flip", f->dit.flip, "Without flipped images");
  app.add("--init", f->dit.init, "Folder of a network to start from, with its sizes",
          {.shows = "FOLDER"});
  app.footer(R"(Examples:
  forerun train dit --data /usr/share/datasets/fashion-mnist --out dit --side 32
  forerun train dit --data photos --out dit --depth 12 --hidden 192 --heads 6 --patch 8

Debian's package dataset-fashion-mnist holds images of the first form. Ctrl-C, or a kill, loses nothing but the steps
since the last checkpoint: the same command resumes.)");
  app.runs([f, &app] {
    expect_no_design_beside_init(app, {"--depth", "--hidden", "--heads", "--patch", "--side"});
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_dit(f->data, f->dit, options, listener);
                        });
  });
}

}  // namespace forerun::cli
