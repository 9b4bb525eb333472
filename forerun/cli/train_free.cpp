#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/image.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct Flags {
  std::string target, data;
  FreeTraining free;
  TrainingFlags training;
};

}  // namespace

std::function<int()> add_train_free(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command =
      parent.add_subcommand("free",
                            "One block that drafts for a Diffusion Transformer from its features "
                            "(arXiv:2511.20390)");
  CLI::App& app = *command;
  app.add_option("-t,--target", f->target, "The Diffusion Transformer")->required();
  bind_image_training(app, f->training, f->data, 10.0);
  app.add_option("--feature", f->free.feature, "Weight of the features' cosine distance")
      ->capture_default_str();
  app.add_option("--smooth", f->free.smooth, "Weight of their Smooth-L1 distance")
      ->capture_default_str();
  app.add_option("--overlap", f->free.overlap,
                 "Weight of -log of the probability that a draft is kept (the paper: 0)")
      ->capture_default_str();
  app.add_flag("--no-frozen-image{false}", f->free.frozen_image,
               "Predict the noise itself, as the paper, not how it differs from a frozen image's");
  app.add_option("--unroll", f->free.unroll, "Steps on its own feature, after the target's")
      ->capture_default_str();
  app.add_option("--cfg", f->free.guidance,
                 "Guidance that it will draft with, whose noise it learns; 1 = none (the paper)")
      ->capture_default_str();
  app.add_option(
         "--late", f->free.late,
         "Share of the images among the last 100 times, where drafts are rejected most; the "
         "others are uniform (the paper: 0)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--drop", f->free.drop,
                 "Share of the images whose class is not told, without guidance")
      ->capture_default_str();
  app.add_flag("--no-flip{false}", f->free.flip, "Without flipped images");
  app.add_option("--init", f->free.init, "Folder of a drafter to go on from");
  app.footer(R"(Examples:
  forerun train free --target dit --data /usr/share/datasets/fashion-mnist --out free
  forerun bench -m dit --drafters asd,frozen,free:free --draft-lengths 4,8 --count 16)");
  return [f, &app] {
    expect_no_design_beside_init(app, {"--no-frozen-image"});
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_free([&] { return DiffusionModel::load(f->target); },
                                            f->data, f->free, options, listener);
                        });
  };
}

}  // namespace forerun::cli
