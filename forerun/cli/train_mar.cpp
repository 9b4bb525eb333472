#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainMarFlags {
  std::string data;
  MarTraining mar;
  TrainingFlags training;
};

struct TrainCspdFlags {
  std::string target, data;
  CspdTraining cspd;
  TrainingFlags training;
};

}  // namespace

void add_train_mar(Command& train) {
  auto f = std::make_shared<TrainMarFlags>();
  Command& app = train.add_command(
      "mar", "A transformer over image tokens with a diffusion head (arXiv:2406.11838)");
  bind_image_training(app, f->training, f->data, {.epochs = 10.0});
  app.add("--depth", f->mar.depth, "Blocks");
  app.add("--hidden", f->mar.hidden, "Width");
  app.add("--heads", f->mar.heads, "Attention heads");
  app.add("--head-blocks", f->mar.head_blocks, "Blocks of the diffusion head");
  app.add("--head-width", f->mar.head_width, "Its width");
  app.add("--patch", f->mar.patch, "Side of a token's patch, in pixels, or in latents");
  app.add("--vae", f->mar.vae,
          "Folder of an autoencoder (diffusers' AutoencoderKL): learn its latents, not pixels");
  app.add("--side", f->mar.side,
          "Side that images are padded to, 0 = their own, to a multiple of the patch");
  app.add("--scattered", f->mar.scattered,
          "Tokens in an order in which successive ones are seldom neighbours");
  app.add("--masked", f->mar.masked,
          "The published form: any order of tokens, several drawn a pass; it takes no drafter");
  app.add("--decoder-depth", f->mar.decoder_depth,
          "Masked form: blocks that see all tokens, after --depth blocks that see the known ones; "
          "0 = as many",
          {.least = 0, .most = 1000});
  app.add("--buffer", f->mar.buffer, "Masked form: rows of the class, 0 = a quarter of the tokens",
          {.least = 0, .most = 4096});
  app.add("--joint", f->mar.joint,
          "The head is modulated by a function of time and condition together, as published, which "
          "is slower");
  app.add("--draws", f->mar.draws, "Noises of a token in a step", {.least = 1, .most = 64});
  app.add("--noise", f->mar.noise,
          "Added to tokens of spread 1, so that every token has a density");
  app.add("--drop", f->mar.drop, "Share of the images whose class is dropped",
          {.least = 0.0, .most = 1.0});
  app.add("--no-flip", f->mar.flip, "Without flipped images");
  app.add("--init", f->mar.init, "Folder of a network to start from, with its sizes",
          {.shows = "FOLDER"});
  app.footer(R"(Examples:
  forerun train mar --data /usr/share/datasets/fashion-mnist --out mar --side 32
  forerun train mar --data imagenet --vae kl16 --patch 1 --noise 0 --out mar
  forerun train mar --data /usr/share/datasets/fashion-mnist --side 32 --masked --out mar-masked
  forerun train cspd --target mar --data /usr/share/datasets/fashion-mnist --out cspd)");
  app.runs([f, &app] {
    expect_no_design_beside_init(
        app,
        {"--depth", "--hidden", "--heads", "--head-blocks", "--head-width", "--patch", "--side",
         "--scattered", "--masked", "--decoder-depth", "--buffer", "--joint", "--noise"});
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_mar(f->data, f->mar, options, listener);
                        });
  });
}

void add_train_cspd(Command& train) {
  auto f = std::make_shared<TrainCspdFlags>();
  Command& app = train.add_command(
      "cspd", "A smaller network that drafts the tokens of such a transformer (arXiv:2411.11925)");
  app.add("-t,--target", f->target, "Folder of the transformer", {.required = true});
  bind_image_training(app, f->training, f->data, {.epochs = 10.0});
  app.add("--depth", f->cspd.depth, "Blocks");
  app.add("--hidden", f->cspd.hidden, "Width");
  app.add("--heads", f->cspd.heads, "Attention heads");
  app.add("--head-blocks", f->cspd.head_blocks, "Blocks of the diffusion head");
  app.add("--head-width", f->cspd.head_width, "Its width");
  app.add("--distill", f->cspd.distill,
          "Share of the loss that is the distance to the target's prediction",
          {.least = 0.0, .most = 1.0});
  app.add("--draws", f->cspd.draws, "Noises of a token in a step", {.least = 1, .most = 64});
  app.add("--drop", f->cspd.drop, "Share of the images whose class is dropped",
          {.least = 0.0, .most = 1.0});
  app.add("--no-flip", f->cspd.flip, "Without flipped images");
  app.add("--vae", f->cspd.vae, "Folder of the autoencoder whose latents the target makes");
  app.add("--init", f->cspd.init, "Folder of a draft to start from, with its sizes",
          {.shows = "FOLDER"});
  app.footer(R"(Examples:
  forerun train cspd --target mar --data /usr/share/datasets/fashion-mnist --out cspd)");
  app.runs([f, &app] {
    expect_no_design_beside_init(
        app, {"--depth", "--hidden", "--heads", "--head-blocks", "--head-width"});
    return run_training(app, f->training, "img",
                        [&](const TrainOptions& options, const TrainListener& listener) {
                          return train_cspd(f->target, f->data, f->cspd, options, listener);
                        });
  });
}

}  // namespace forerun::cli
