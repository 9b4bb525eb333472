#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct Flags {
  std::string data;
  ClassifierTraining classifier;
  TrainingFlags training;
};

}  // namespace

std::function<int()> add_train_classifier(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand(
      "classifier", "A small classifier of images, which `forerun evaluate` compares images by");
  CLI::App& app = *command;
  bind_image_training(app, f->training, f->data, 6.0);
  f->training.options.learning_rate = 4e-3;
  app.get_option("--lr")->capture_default_str();
  app.add_option("--width", f->classifier.width,
                 "Channels after the first convolution; then twice, four times")
      ->capture_default_str();
  app.add_option("--features", f->classifier.features, "Values an image is compared by")
      ->capture_default_str();
  app.add_option("--side", f->classifier.side,
                 "Side that images are padded to, 0 = their own; as that of the diffusion model")
      ->capture_default_str();
  app.add_flag("--no-flip{false}", f->classifier.flip, "Without flipped images");
  app.add_option("--shift", f->classifier.shift, "Pixels by which images are moved at most")
      ->capture_default_str();
  app.add_option("--smoothing", f->classifier.smoothing,
                 "Share of a label that is spread over all classes")
      ->capture_default_str();
  app.footer(R"(Examples:
  forerun train classifier --data /usr/share/datasets/fashion-mnist --out classifier --side 32
  forerun train classifier --data photos --out classifier --epochs 30 --no-flip

The log shows the accuracy on the test images. Train it once: distances under two classifiers cannot be compared.)");
  return [f, &app] {
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_classifier(f->data, f->classifier, options, listener);
                        });
  };
}

}  // namespace forerun::cli
