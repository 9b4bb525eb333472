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
};

int run_train_tidar(const TrainTidarFlags& flags, const Command& command) {
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
      "tidar", "Adapters by which an unchanged target drafts on mask rows (arXiv:2511.08923)");
  bind_answers(tidar, f->answers, f->tidar.loss);
  TidarTraining& o = f->tidar;
  tidar.add("--lora", o.rank, "Rank of the adapters of every linear layer",
            {.least = 1, .most = 4096});
  tidar.add("--block", o.block, "Tokens of a block, the decided first one included",
            {.least = 2, .most = 64});
  tidar.add("--first-slot", o.first_slot, "A mask for the block's first token too");
  tidar.add("--markov", o.markov_rank, "Rank of the Markov head, 0 = none");
  tidar.add("--offsets", o.loss.offsets, "Sets of blocks of an answer that share a pass over it");
  tidar.add("--init", o.init, "Folder of adapters to start from; their design is kept");
  tidar.footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers
  forerun train tidar --target model.gguf --data answers --out adapters --lora 32 --block 4

The target's weights do not change: rows of text never meet an adapter. Ctrl-C, or a kill, loses
nothing but the steps since the last checkpoint: the same command resumes.)");
  tidar.runs([f, &tidar] { return run_train_tidar(*f, tidar); });
}

}  // namespace forerun::cli
