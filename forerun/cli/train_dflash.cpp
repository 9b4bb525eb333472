#include <memory>
#include <string>
#include <vector>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct Flags {
  ModelFlags target;
  std::vector<std::string> data;
  DFlashTraining dflash;
  TrainingFlags training;
  bool own_position = false, random = false;
};

int run(const Flags& flags, const CLI::App& command) {
  expect_no_design_beside_init(
      command, {"--layers", "--features", "--draft-vocab", "--markov", "--own-position", "--random",
                "--no-confidence", "--no-slot-state"});
  DFlashTraining dflash = flags.dflash;
  dflash.predicts_next = !flags.own_position;
  dflash.from_target = !flags.random;
  ModelFlags path = flags.target;
  path.threads = flags.training.threads;
  return run_training(command, flags.training, "tok",
                      [&](const TrainOptions& options, const TrainListener& listener) {
                        return train_dflash([&] { return load_model(path); }, flags.data, dflash,
                                            options, listener);
                      });
}

void bind_dflash(CLI::App& app, DFlashTraining& o) {
  app.add_option("--layers", o.layers, "Draft layers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--block", o.block, "Slots of a block")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--features", o.features, "Target blocks that it reads, counted from 0")
      ->delimiter(',');
  app.add_option("--draft-vocab", o.draft_vocab, "Tokens it can draft, 0 = all")
      ->capture_default_str();
  app.add_option("--markov", o.markov_rank, "Rank of the Markov head, 0 = none")
      ->capture_default_str();
  app.add_option("--anchors", o.loss.anchors, "Blocks of an answer")->capture_default_str();
  app.add_option("--length", o.loss.length, "Tokens of a document at most")->capture_default_str();
  app.add_option("--gamma", o.loss.gamma, "Slot k of a block counts exp(-k / gamma)")
      ->capture_default_str();
  app.add_option("--distill", o.loss.distill,
                 "Share of the loss against the target's law, the rest against its token")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--state-store", o.loss.state_store,
                 "File that keeps the target's states between epochs (4 KB a token for a hidden "
                 "size of 576)");
  app.add_option("--held-out", o.loss.held_out, "Share of the answers that is not trained on")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
}

}  // namespace

std::function<int()> add_train_dflash(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  CLI::App* dflash = command = parent.add_subcommand(
      "dflash", "Block diffusion that reads the target's hidden states (arXiv:2602.06036)");
  dflash->add_option("-t,--target", f->target.path, "GGUF file, or Hugging Face folder")
      ->required();
  dflash->add_option("--precision", f->target.precision, "Of the target's passes")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}))
      ->capture_default_str();
  dflash->add_option("--data", f->data, "Folders that forerun distill wrote")->required();
  bind_training(*dflash, f->training, "Answers");
  bind_dflash(*dflash, f->dflash);
  dflash->add_flag("--own-position", f->own_position,
                   "Slots predict their own position (as the paper's), not the next");
  dflash->add_flag("--no-confidence{false}", f->dflash.confidence, "Without the confidence head");
  dflash->add_flag("--no-slot-state{false}", f->dflash.slot_state,
                   "Slots do not begin with the target's newest state (as the paper's)");
  dflash->add_option("--init", f->dflash.init,
                     "Folder of a drafter to go on from, with its design but for --block");
  dflash->add_flag("--random", f->random,
                   "Begin with random weights, not the target's last blocks");
  dflash->footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers
  forerun train dflash --target model.gguf --data answers --out drafter --layers 2 --block 8
  forerun bench -m model.gguf --drafters none,dflash:drafter --prompts dev.jsonl

Ctrl-C, or a kill, loses nothing but the steps since the last checkpoint: the same command goes on.)");
  return [f, dflash] { return run(*f, *dflash); };
}

}  // namespace forerun::cli
