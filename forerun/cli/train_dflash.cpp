#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainDflashFlags {
  AnswerFlags answers;
  DFlashTraining dflash;
  bool own_position = false, random = false;
};

int run_train_dflash(const TrainDflashFlags& flags, const Command& command) {
  expect_no_design_beside_init(
      command, {"--layers", "--features", "--draft-vocab", "--markov", "--markov-head",
                "--selector", "--own-position", "--random", "--no-confidence", "--no-slot-state"});
  for (const char* flag : {"--markov", "--markov-head"}) {
    const bool none = flags.dflash.markov_rank == 0;  // which is the same
    if (flags.dflash.selector_rank > 0 && command.given(flag) && !none) {
      throw UsageError(
          fmt::format("--selector stands in place of the Markov head: leave out {}", flag));
    }
  }
  DFlashTraining dflash = flags.dflash;
  dflash.predicts_next = !flags.own_position;
  dflash.from_target = !flags.random;
  return run_training_on_answers(
      command, flags.answers,
      [&](const auto& target, const auto& data, const auto& options, const auto& listener) {
        return train_dflash(target, data, dflash, options, listener);
      });
}

void bind_dflash(Command& app, DFlashTraining& o) {
  app.add("--layers", o.layers, "Draft layers", {.least = 1, .most = 64});
  app.add("--block", o.block, "Slots of a block", {.least = 2, .most = 64});
  app.add("--features", o.features, "Target blocks that it reads, counted from 0",
          {.commas = true});
  app.add("--draft-vocab", o.draft_vocab, "Tokens it can draft, 0 = all");
  app.add("--markov", o.markov_rank, "Rank of the Markov head, 0 = none");
  app.add("--markov-head", o.markov_head, "Kind of Markov head: gated by the slot's output, or not",
          {.one_of = {"vanilla", "gated"}});
  app.add("--selector", o.selector_rank,
          "Rank of a selector among 16 candidates of a slot, in place of the Markov head; 0 = none "
          "(DFlash 2)");
  app.add("--anchors", o.loss.anchors, "Blocks of an answer");
  app.add("--law-loss", o.loss.law_loss,
          "Loss against the target's law: l1 is DSpark's, with --distill 0.9",
          {.one_of = {"cross-entropy", "l1"}});
  app.add("--state-store", o.loss.state_store,
          "File that keeps the target's states between epochs (4 KB a token for a hidden "
          "size of 576)",
          {.shows = "FILE"});
}

}  // namespace

void add_train_dflash(Command& train) {
  auto f = std::make_shared<TrainDflashFlags>();
  Command& dflash = train.add_command(
      "dflash", "Block diffusion that reads the target's hidden states (arXiv:2602.06036)");
  bind_answers(dflash, f->answers, f->dflash.loss);
  dflash.add("--precision", f->answers.target.precision,
             "Of the target's passes; auto: int8 where it can be had",
             {.one_of = {"auto", "f32", "bf16", "int8", "int4"}});
  bind_dflash(dflash, f->dflash);
  dflash.add("--own-position", f->own_position,
             "Slots predict their own position (as the paper's), not the next");
  dflash.add("--conv", f->dflash.conv,
             "Convolutions over neighbouring slots around attention and MLP (DFlash 2)");
  bind_weight_bits(dflash, f->dflash.weight_bits);
  dflash.add("--no-confidence", f->dflash.confidence, "Without the confidence head");
  dflash.add("--no-slot-state", f->dflash.slot_state,
             "Slots do not begin with the target's newest state (as the paper's)");
  dflash.add("--init", f->dflash.init,
             "Folder of a drafter to start from; its design is kept but for --block, --conv and "
             "--weight-bits",
             {.shows = "FOLDER"});
  dflash.add("--random", f->random, "Begin with random weights, not the target's last blocks");
  dflash.footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers
  forerun train dflash --target model.gguf --data answers --out drafter --layers 2 --block 8
  forerun bench -m model.gguf --drafters none,dflash:drafter --prompts dev.jsonl

Ctrl-C, or a kill, loses nothing but the steps since the last checkpoint: the same command resumes.)");
  dflash.runs([f, &dflash] { return run_train_dflash(*f, dflash); });
}

}  // namespace forerun::cli
