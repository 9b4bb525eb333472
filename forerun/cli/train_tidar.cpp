#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainTidarFlags {
  AnswerFlags answers;
  TidarTraining tidar;
  TidarModelTraining model;
  bool full = false;
};

void expect_alone(const Command& command, const char* flag,
                  std::initializer_list<const char*> others, const char* why) {
  for (const char* other : others) {
    if (command.given(other))
      throw UsageError(fmt::format("{} {} {}: leave out one", other, why, flag));
  }
}

int run_train_tidar_model(const TrainTidarFlags& flags, const Command& command) {
  expect_alone(command, "--full", {"--lora", "--init"}, "is of adapters, not of");
  if (!flags.model.loss.masks) {
    expect_alone(command, "--no-masks",
                 {"--block", "--first-slot", "--markov", "--offsets", "--distill", "--gamma",
                  "--random-masks"},
                 "is of masks, not of");
  }
  TidarModelTraining model = flags.model;
  model.block = flags.tidar.block;
  model.first_slot = flags.tidar.first_slot;
  model.markov_rank = flags.tidar.markov_rank;
  static_cast<TidarLossOptions&>(model.loss) = flags.tidar.loss;
  return run_training(command, flags.answers.training, "tok",
                      [&](const TrainOptions& options, const TrainListener& listener) {
                        return train_tidar_model(flags.answers.target.path, flags.answers.data,
                                                 model, options, listener);
                      });
}

int run_train_tidar(const TrainTidarFlags& flags, const Command& command) {
  if (flags.full) return run_train_tidar_model(flags, command);
  for (const char* flag : {"--random", "--alpha", "--no-masks", "--random-masks"}) {
    if (command.given(flag)) throw UsageError(fmt::format("{} goes with --full", flag));
  }
  expect_no_design_beside_init(command, {"--lora", "--block", "--first-slot", "--markov"});
  return run_training_on_answers(
      command, flags.answers,
      [&](const auto& target, const auto& data, const auto& options, const auto& listener) {
        return train_tidar(target, data, flags.tidar, options, listener);
      });
}

}  // namespace

void add_train_tidar(Command& train) {
  auto f = std::make_shared<TrainTidarFlags>();
  f->answers.target.precision = "f32";  // the weights themselves; products are as training's
  Command& tidar = train.add_command(
      "tidar",
      "Drafting on mask rows in the target's own pass (arXiv:2511.08923): adapters for an "
      "unchanged target, or a whole model");
  bind_answers(tidar, f->answers, f->tidar.loss);
  TidarTraining& o = f->tidar;
  tidar.add("--lora", o.rank, "Rank of the adapters of every linear layer",
            {.least = 1, .most = 4096});
  tidar.add("--block", o.block, "Tokens of a block, the decided first one included",
            {.least = 2, .most = 64});
  tidar.add("--first-slot", o.first_slot, "A mask for the block's first token too");
  tidar.add("--markov", o.markov_rank, "Rank of the Markov head, 0 = none");
  tidar.add("--offsets", o.loss.offsets, "Sets of blocks of an answer that share a pass over it");
  tidar.add("--init", o.init, "Folder of adapters to start from; their design is kept",
            {.shows = "FOLDER"});
  tidar.group("A whole model");
  tidar.add("--full", f->full,
            "All weights of the target learn, on documents in its tokens; the result is a model");
  TidarModelTraining& m = f->model;
  tidar.add("--random", m.random,
            "From random weights: the target's folder holds config.json and the tokenizer");
  tidar.add("--alpha", m.loss.alpha, "Weight of the text's own rows beside its masks",
            {.least = 0.0});
  tidar.add("--no-masks", m.loss.masks, "The text's rows alone: the autoregressive twin");
  tidar.add("--random-masks", m.loss.random_masks,
            "Some slots of a block show their token, at random; without it all are masks");
  tidar.footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers
  forerun train tidar --target model.gguf --data answers --out adapters --lora 32 --block 4
  forerun train tidar --full --target model --data texts --out whole --distill 0
  forerun generate -m whole --drafter tidar:self -p "..."

Without --full the target's weights do not change: rows of text never meet an adapter. Ctrl-C, or a kill, loses
nothing but the steps since the last checkpoint: the same command resumes.)");
  tidar.runs([f, &tidar] { return run_train_tidar(*f, tidar); });
}

}  // namespace forerun::cli
