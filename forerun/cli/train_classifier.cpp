#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainClassifierFlags {
  std::string data;
  ClassifierTraining classifier;
  TrainingFlags training;
};

}  // namespace

void add_train_classifier(Command& train) {
  auto f = std::make_shared<TrainClassifierFlags>();
  Command& app = train.add_command(
      "classifier", "A small classifier of images, which `forerun evaluate` compares images by");
  bind_image_training(app, f->training, f->data, {.epochs = 6.0, .learning_rate = 4e-3});
  app.add("--width", f->classifier.width,
          "Channels after the first convolution; then twice, four times");
  app.add("--features", f->classifier.features, "Values an image is compared by");
  app.add("--side", f->classifier.side,
          "Side that images are padded to, 0 = their own; as that of the diffusion model");
  app.add("--no-flip", f->classifier.flip, "Without flipped images");
  app.add("--shift", f->classifier.shift, "Pixels by which images are moved at most");
  app.add("--smoothing", f->classifier.smoothing,
          "Share of a label that is spread over all classes");
  app.footer(R"(Examples:
  forerun train classifier --data /usr/share/datasets/fashion-mnist --out classifier --side 32
  forerun train classifier --data photos --out classifier --epochs 30 --no-flip

The log shows the accuracy on the test images. Train it once: distances under two classifiers cannot be compared.)");
  app.runs([f, &app] {
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_classifier(f->data, f->classifier, options, listener);
                        });
  });
}

}  // namespace forerun::cli
