#include <memory>
#include <string>
#include <vector>

#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

constexpr const char* kBidirectional = "bidirectional";

struct TrainDlmFlags {
  AnswerFlags answers;
  DlmTraining dlm;
  std::string attention = "block";
};

int run_train_dlm(TrainDlmFlags& flags, const Command& command) {
  expect_no_design_beside_init(command, {"--layers", "--draft-vocab", "--attention"});
  flags.dlm.bidirectional = flags.attention == kBidirectional;
  return run_training_on_answers(
      command, flags.answers,
      [&](const auto& target, const auto& data, const auto& options, const auto& listener) {
        return train_dlm(target, data, flags.dlm, options, listener);
      });
}

}  // namespace

void add_train_dlm(Command& train) {
  auto f = std::make_shared<TrainDlmFlags>();
  Command& dlm = train.add_command(
      "dlm", "A diffusion language model from the target's first blocks, that drafts for it");
  bind_answers(dlm, f->answers, f->dlm.loss);
  dlm.add("--precision", f->answers.target.precision,
          "Of the target's passes; auto: int8 where it can be had",
          {.one_of = {"auto", "f32", "bf16", "int8", "int4"}});
  dlm.add("--layers", f->dlm.layers, "Blocks of the target that it begins as",
          {.least = 1, .most = 256});
  dlm.add("--block", f->dlm.block, "Drafts of a pass", {.least = 1, .most = 64});
  dlm.add("--attention", f->attention,
          "block: text is read once and kept; bidirectional: as in Dream, every pass reads all",
          {.one_of = {"block", kBidirectional}});
  dlm.add("--draft-vocab", f->dlm.draft_vocab, "Tokens it can draft, 0 = all");
  dlm.add("--anchors", f->dlm.loss.anchors,
          "Blocks of an answer; each is a pass of its own if bidirectional");
  dlm.add("--init", f->dlm.init,
          "Folder of one to start from; its design is kept but for --block and --weight-bits",
          {.shows = "FOLDER"});
  bind_weight_bits(dlm, f->dlm.weight_bits);
  dlm.footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers
  forerun train dlm --target model.gguf --data answers --out drafter --layers 5 --block 8
  forerun train dlm --target model.gguf --data answers --out dream --attention bidirectional --anchors 4

Ctrl-C, or a kill, loses nothing but the steps since the last checkpoint: the same command resumes.)");
  dlm.runs([f, &dlm] { return run_train_dlm(*f, dlm); });
}

}  // namespace forerun::cli
