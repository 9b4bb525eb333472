#include <memory>
#include <string>
#include <vector>

#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainMedusaFlags {
  AnswerFlags answers;
  MedusaTraining medusa;
};

int run_train_medusa(const TrainMedusaFlags& flags, const Command& command) {
  expect_no_design_beside_init(
      command, {"--heads", "--width", "--mlp", "--features", "--draft-vocab", "--markov"});
  return run_training_on_answers(
      command, flags.answers,
      [&](const auto& target, const auto& data, const auto& options, const auto& listener) {
        return train_medusa(target, data, flags.medusa, options, listener);
      });
}

void bind_medusa(Command& app, MedusaTraining& o) {
  app.add("--heads", o.heads, "Tokens that it predicts, a head each", {.least = 1, .most = 64});
  app.add("--width", o.width,
          "Width of the trunk and of the heads; multiples of 48 cost least, 4 bits need multiples "
          "of 32",
          {.least = 1});
  app.add("--mlp", o.intermediate, "Width of the trunk's MLP; multiples of 96 cost least",
          {.least = 1});
  app.add(
      "--features", o.features,
      "Target blocks that it reads, counted from 0; of five even ones the second, fourth and fifth "
      "if none are named",
      {.commas = true});
  app.add("--draft-vocab", o.draft_vocab, "Tokens it can draft, 0 = all");
  app.add("--markov", o.markov_rank,
          "Rank of the Markov head, by which a head knows the token before, 0 = none");
  app.add("--anchors", o.loss.anchors,
          "Positions of an answer at which heads are trained; more cost little beside the target's "
          "pass");
  app.add("--state-store", o.loss.state_store,
          "File that keeps the target's states between epochs (3 KB a token for a hidden "
          "size of 576)",
          {.shows = "FILE"});
}

}  // namespace

void add_train_medusa(Command& train) {
  auto f = std::make_shared<TrainMedusaFlags>();
  Command& medusa = train.add_command(
      "medusa",
      "Heads that predict the next tokens from the target's hidden states (arXiv:2401.10774)");
  bind_answers(medusa, f->answers, f->medusa.loss);
  medusa.add("--precision", f->answers.target.precision,
             "Of the target's passes; auto: int8 where it can be had",
             {.one_of = {"auto", "f32", "bf16", "int8", "int4"}});
  bind_medusa(medusa, f->medusa);
  bind_weight_bits(medusa, f->medusa.weight_bits);
  medusa.add("--init", f->medusa.init,
             "Folder of heads to start from; their design is kept but for --weight-bits",
             {.shows = "FOLDER"});
  medusa.footer(R"(Examples:
  forerun distill -m model.gguf --self-prompts 4000 --out answers
  forerun train medusa --target model.gguf --data answers --out heads --epochs 4
  forerun train medusa --target model.gguf --data answers --out model.drafter   # where auto finds them
  forerun generate -m model.gguf -p "..." --drafter medusa:heads+auto

Ctrl-C, or a kill, loses nothing but the steps since the last checkpoint: the same command resumes.)");
  medusa.runs([f, &medusa] { return run_train_medusa(*f, medusa); });
}

}  // namespace forerun::cli
