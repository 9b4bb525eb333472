#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct Flags {
  std::string data;
  DitTraining dit;
  TrainingFlags training;
};

}  // namespace

std::function<int()> add_train_dit(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand(
      "dit", "A class-conditional Diffusion Transformer on images (arXiv:2212.09748)");
  CLI::App& app = *command;
  bind_image_training(app, f->training, f->data, 20.0);
  app.add_option("--depth", f->dit.depth, "Blocks")->capture_default_str();
  app.add_option("--hidden", f->dit.hidden, "Width")->capture_default_str();
  app.add_option("--heads", f->dit.heads, "Attention heads")->capture_default_str();
  app.add_option("--patch", f->dit.patch, "Side of a patch, in pixels")->capture_default_str();
  app.add_option("--side", f->dit.side,
                 "Side that images are padded to, 0 = their own, to a multiple of the patch")
      ->capture_default_str();
  app.add_option("--drop", f->dit.drop, "Share of the images whose class is not told")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--no-flip{false}", f->dit.flip, "Without flipped images");
  app.add_option("--init", f->dit.init, "Folder of a network to go on from, with its sizes");
  app.footer(R"(Examples:
  forerun train dit --data /usr/share/datasets/fashion-mnist --out dit --side 32
  forerun train dit --data photos --out dit --depth 12 --hidden 192 --heads 6 --patch 8

Debian's package dataset-fashion-mnist holds images of the first form. Ctrl-C, or a kill, loses nothing but the steps
since the last checkpoint: the same command goes on.)");
  return [f, &app] {
    expect_no_design_beside_init(app, {"--depth", "--hidden", "--heads", "--patch", "--side"});
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_dit(f->data, f->dit, options, listener);
                        });
  };
}

}  // namespace forerun::cli
