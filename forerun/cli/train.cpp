#include <fmt/format.h>
#include <malloc.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/new_file.h"
#include "forerun/cli/options.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/report/training.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {
namespace {

struct Flags {
  ModelFlags target;
  std::vector<std::string> data;
  DFlashTraining dflash;
  TrainOptions training;
  bool own_position = false, random = false, f32 = false, json = false;
};

std::string clock_text(double seconds) {
  const auto s = static_cast<long>(seconds);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string line_of(const forerun::Progress& p) {
  std::string out = fmt::format("step {} of {}  loss {:.3f}", p.step, p.steps, p.smoothed_loss);
  for (const Figure& f : p.figures) out += fmt::format("  {} {:.3f}", f.name, f.value());
  if (p.held_out != nullptr) out += fmt::format("  held-out {:.3f}", p.held_out->loss);
  return out + fmt::format("  {:.0f} tok/s  {:.0f} GFLOP/s  {} left", p.tokens_per_second,
                           p.gflops_per_second, clock_text(p.eta_seconds));
}

std::string line_of(const HeldOut& h) {
  std::string out = fmt::format("step {}: held-out loss {:.4f}", h.step, h.loss);
  for (const Figure& f : h.figures) out += fmt::format(", {} {:.3f}", f.name, f.value());
  return out;
}

// A step frees and takes the same large blocks again and again; from the system they would come
// page by page, zeroed, which was a sixth of a step.
void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

// The log as a page, beside it. A page that cannot be written stops no training.
void write_curves(const std::string& folder) {
  try {
    std::ifstream in(folder + "/log.jsonl", std::ios::binary);
    const std::string log(std::istreambuf_iterator<char>(in), {});
    NewFile(folder + "/curves.html").commit(render_training(log));
  } catch (const std::exception& e) {
    note(e.what());
  }
}

// Operations of matrix products and the seconds they took, over this process's steps.
struct Work {
  double operations = 0.0, seconds = 0.0;

  void add(const forerun::Progress& p) {
    operations += p.gflops_per_second * 1e9 * p.step_seconds;
    seconds += p.step_seconds;
  }
  std::string text(double machine) const {
    const double rate = seconds > 0.0 ? operations / seconds : 0.0;
    return fmt::format(
        "matrix products {:.0f} GFLOP/s over whole steps, {:.2f} of the {:.0f} that this "
        "machine multiplies large matrices at",
        rate * 1e-9, machine > 0.0 ? rate / machine : 0.0, machine * 1e-9);
  }
};

int run(const Flags& flags, const CLI::App& command) {
  keep_memory();
  Flags f = flags;
  f.dflash.predicts_next = !f.own_position;
  f.dflash.from_target = !f.random;
  f.training.bf16 = !f.f32;
  f.training.threads = f.target.threads;
  f.training.provenance = nlohmann::json({{"forerun", FORERUN_VERSION},
                                          {"date", utc_date()},
                                          {"cpu", cpu_name()},
                                          {"command", command_line(command)}})
                              .dump();
  const Model target = load_model(f.target);
  Progress progress;
  Work work;
  TrainListener listener;
  listener.on_step = [&](const forerun::Progress& p) {
    work.add(p);
    progress.show(line_of(p));
  };
  listener.on_checkpoint = [&](const forerun::Progress&) { write_curves(f.training.out); };
  listener.on_held_out = [&](const HeldOut& h) {
    progress.clear();
    note(line_of(h));
  };
  listener.on_note = [&](std::string_view text) {
    progress.clear();
    note(text);
  };
  listener.go_on = [] { return !interrupted(); };
  const TrainReport r = train_dflash(target, f.data, f.dflash, f.training, listener);
  progress.clear();
  write_out(fmt::format("{}: {} after step {} of {}, loss {:.4f}, {} tokens in {}\n",
                        f.training.out, name_of(r.end), r.step, r.steps, r.smoothed_loss, r.tokens,
                        clock_text(r.seconds)));
  if (work.seconds > 0.0) {
    write_curves(f.training.out);
    write_out(work.text(product_rate(f.training.bf16, f.target.threads)) + "\n" + f.training.out +
              "/curves.html: the curves\n");
  }
  return r.end == TrainEnd::kInterrupted ? 130 : 0;
}

void bind_training(CLI::App& app, TrainOptions& o) {
  app.add_option("--out", o.out,
                 "Folder of the drafter, the checkpoint and the log; a run found "
                 "there is taken up")
      ->required();
  app.add_option("--epochs", o.epochs, "Passes over the data")->capture_default_str();
  app.add_option("--steps", o.steps, "Steps, in place of epochs");
  app.add_option("--batch", o.batch, "Answers a step")->capture_default_str();
  app.add_option("--micro-batch", o.micro_batch, "Of them at a time")->capture_default_str();
  app.add_option("--lr", o.learning_rate, "Learning rate")->capture_default_str();
  app.add_option("--warmup", o.warmup, "Share of the steps in which it rises")
      ->capture_default_str();
  app.add_option("--min-lr", o.min_rate, "Share of it at which the cosine ends")
      ->capture_default_str();
  app.add_flag("--muon", o.muon, "Muon for the hidden matrices, AdamW for the rest");
  app.add_option("--weight-decay", o.weight_decay, "Of matrices")->capture_default_str();
  app.add_option("--clip", o.clip, "Largest norm of the gradient")->capture_default_str();
  app.add_option("--ema", o.ema, "Decay of the average of the weights, 0 = none")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Of data order, anchors and first weights")
      ->capture_default_str();
  app.add_option("--checkpoint-seconds", o.checkpoint_seconds, "Time between checkpoints")
      ->capture_default_str();
  app.add_option("--evaluate-steps", o.evaluate_steps, "Steps between held-out losses")
      ->capture_default_str();
  app.add_option("--time-limit", o.time_limit, "Seconds after which it stops, to be taken up")
      ->capture_default_str();
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

Action add_train(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand("train", "Train a drafter on a target's own answers");
  command->require_subcommand(1);
  CLI::App* dflash = command->add_subcommand(
      "dflash", "Block diffusion that reads the target's hidden states (arXiv:2602.06036)");
  dflash->add_option("-t,--target", f->target.path, "GGUF file, or Hugging Face folder")
      ->required();
  dflash->add_option("--precision", f->target.precision, "Of the target's passes")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}))
      ->capture_default_str();
  dflash->add_option("--threads", f->target.threads, "CPU threads, 0 = one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  dflash->add_option("--data", f->data, "Folders that forerun distill wrote")->required();
  bind_training(*dflash, f->training);
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
  dflash->add_flag("--f32", f->f32, "Matrix products in float32, not bfloat16");
  dflash->footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers
  forerun train dflash --target model.gguf --data answers --out drafter --layers 2 --block 8
  forerun bench -m model.gguf --drafters none,dflash:drafter --prompts dev.jsonl

Ctrl-C, or a kill, loses nothing but the steps since the last checkpoint: the same command goes on.)");
  return [f, dflash] { return run(*f, *dflash); };
}

}  // namespace forerun::cli
