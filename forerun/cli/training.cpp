#include "forerun/cli/training.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forerun/base/atomic_file.h"
#include "forerun/base/mapped_file.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/report/training.h"
#include "forerun/cli/terminal.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

constexpr std::size_t kMessage = 1000;  // bytes of a line

std::string clock_text(double seconds) {
  const auto s = static_cast<long>(seconds);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string line_of(const forerun::Progress& p, const std::string& unit) {
  std::string out = fmt::format("step {} of {}  loss {:.3f}", p.step, p.steps, p.smoothed_loss);
  for (const Figure& f : p.figures) out += fmt::format("  {} {:.3f}", f.name, f.value());
  if (p.held_out != nullptr) out += fmt::format("  held-out {:.3f}", p.held_out->loss);
  return out + fmt::format("  {:.0f} {}/s  {:.0f} GFLOP/s  {} left", p.tokens_per_second, unit,
                           p.gflops_per_second, clock_text(p.eta_seconds));
}

std::string line_of(const HeldOut& h) {
  std::string out = fmt::format("step {}: held-out loss {:.4f}", h.step, h.loss);
  for (const Figure& f : h.figures) out += fmt::format(", {} {:.3f}", f.name, f.value());
  return out;
}

// The log as a page, beside it. A page that cannot be written stops no training.
void write_curves(const std::string& folder) {
  try {
    const MappedFile log = load_file(folder + "/log.jsonl");
    AtomicFile(folder + "/curves.html").commit(render_training(log.text()));
  } catch (const std::exception& e) {
    note(printable(e.what(), kMessage));
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

}  // namespace

void bind_training(Command& app, TrainingFlags& flags, const std::string& what) {
  TrainOptions& o = flags.options;
  app.add("--threads", flags.threads, "CPU threads, 0 = one a core", {.least = 0, .most = 1024});
  app.add("--out", o.out,
          "Folder of the result, the checkpoint and the log; a run found there is resumed",
          {.required = true});
  app.add("--epochs", o.epochs, "Passes over the data");
  app.add("--steps", o.steps, "Steps, in place of epochs");
  app.add("--batch", o.batch, what + " a step");
  app.add("--micro-batch", o.micro_batch, "Of them at a time");
  app.add("--lr", o.learning_rate, "Learning rate");
  app.add("--warmup", o.warmup, "Share of the steps in which it rises");
  app.add("--min-lr", o.min_rate, "Share of it at which the cosine ends");
  app.add("--muon", o.muon, "Muon for the hidden matrices, AdamW for the rest");
  app.add("--weight-decay", o.weight_decay, "Of matrices");
  app.add("--clip", o.clip, "Largest norm of the gradient");
  app.add("--ema", o.ema, "Decay of the average of the weights, 0 = none");
  app.add("--seed", o.seed, "Of data order, initial weights and all random numbers of training");
  app.add("--checkpoint-seconds", o.checkpoint_seconds, "Time between checkpoints");
  app.add("--evaluate-steps", o.evaluate_steps, "Steps between held-out losses");
  app.add("--time-limit", o.time_limit, "Seconds after which it stops, to be resumed");
  app.add("--f32", flags.f32,
          "Matrix products in float32, not bfloat16; on a CPU without AVX-512 they always are");
}

void bind_image_training(Command& app, TrainingFlags& flags, std::string& data,
                         const ImageTraining& defaults) {
  app.add("--data", data,
          "Folder of images: IDX files as MNIST's, or PNG files in a folder a class",
          {.required = true});
  TrainOptions& o = flags.options;
  o.batch = 128;
  o.micro_batch = 64;
  o.learning_rate = defaults.learning_rate;
  o.ema = 0.999;
  o.epochs = defaults.epochs;
  o.evaluate_steps = 1000;
  bind_training(app, flags, "Images");
}

void bind_weight_bits(Command& app, std::int64_t& bits) {
  app.add(
      "--weight-bits", bits,
      "4: weights are rounded to 4 bits, in training as in passes; 0: as those of --init, else not",
      {.least = 0, .most = 4});
}

void bind_answers(Command& app, AnswerFlags& flags, AnswerLossOptions& loss) {
  app.add("-t,--target", flags.target.path,
          "GGUF file, Hugging Face folder, or ORG/NAME of its cache",
          {.required = true, .means = local_model});
  app.add("--data", flags.data, "Folders that forerun distill wrote", {.required = true});
  bind_training(app, flags.training, "Answers");
  app.add("--device", flags.training.options.device,
          "What computes: cpu, cuda or cuda:N, of a program with a libtorch for CUDA");
  app.add("--length", loss.length, "Tokens of a document at most");
  app.add("--gamma", loss.gamma, "Draft k of a block counts exp(-k / gamma)");
  app.add("--distill", loss.distill,
          "Share of the loss against the target's law, the rest against its token",
          {.least = 0.0, .most = 1.0});
  app.add("--held-out", loss.held_out, "Share of the answers that is not trained on",
          {.least = 0.0, .most = 0.9});
}

void expect_no_design_beside_init(const Command& app, std::initializer_list<const char*> flags) {
  if (!app.given("--init")) return;
  for (const char* flag : flags) {
    if (!app.given(flag)) continue;
    throw UsageError(fmt::format(
        "{} is for a new network: --init keeps the design of the network that it names; "
        "leave out one of them",
        flag));
  }
}

int run_training(
    const Command& command, const TrainingFlags& flags, const std::string& unit,
    const std::function<TrainReport(const TrainOptions&, const TrainListener&)>& train) {
  catch_interrupts(kEndsAtThird);
  TrainOptions options = flags.options;
  options.bf16 = !flags.f32 && trains_in_bf16(options.device);
  options.threads = flags.threads;
  options.provenance = nlohmann::json({{"forerun", FORERUN_VERSION},
                                       {"date", utc_date()},
                                       {"cpu", machine().cpu},
                                       {"command", command.line()}})
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  Progress progress;
  Work work;
  TrainListener listener;
  listener.on_step = [&](const forerun::Progress& p) {
    work.add(p);
    progress.show(line_of(p, unit));
  };
  listener.on_checkpoint = [&](const forerun::Progress&) { write_curves(options.out); };
  listener.on_held_out = [&](const HeldOut& h) {
    progress.clear();
    note(line_of(h));
  };
  listener.on_note = [&](std::string_view text) {
    progress.clear();
    note(printable(text, kMessage));
  };
  listener.go_on = [] { return !interrupted(); };
  const TrainReport r = train(options, listener);
  progress.clear();
  const int code = r.end == TrainEnd::kInterrupted ? 130 : 0;
  if (r.rank != 0) return code;
  const std::string loss = r.step > 0 ? fmt::format(", loss {:.4f}", r.smoothed_loss) : "";
  write_out(fmt::format("{}: {} after step {} of {}{}, {} {} in {}\n", options.out, name_of(r.end),
                        r.step, r.steps, loss, r.tokens, unit == "tok" ? "tokens" : "images",
                        clock_text(r.seconds)));
  if (work.seconds > 0.0) {
    write_curves(options.out);
    // Measuring the machine takes seconds, which an interrupted command has not.
    if (code == 0)
      write_out(work.text(product_rate(options.bf16, options.threads, options.device)) + "\n");
    write_out(options.out + "/curves.html: the curves\n");
  }
  return code;
}

int run_training_on_answers(
    const Command& command, const AnswerFlags& flags,
    const std::function<TrainReport(const std::function<Model()>& target,
                                    const std::vector<std::string>& data, const TrainOptions&,
                                    const TrainListener&)>& train) {
  ModelFlags path = flags.target;
  path.threads = flags.training.threads;
  if (flags.training.options.device != "cpu") {
    if (command.given("--precision")) {
      throw UsageError(
          "--precision is of the target's passes on the CPU: leave out it, or --device");
    }
    path.precision = "f32";  // nothing is packed that would not run
  }
  return run_training(command, flags.training, "tok",
                      [&](const TrainOptions& options, const TrainListener& listener) {
                        return train([&] { return load_model(path); }, flags.data, options,
                                     listener);
                      });
}

}  // namespace forerun::cli
