#include <fmt/format.h>

#include <memory>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/terminal.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct LogitsFlags {
  ModelFlags model;
  std::string prompt, out;
  bool raw = false;
};

int run_logits(const LogitsFlags& f) {
  expect_apart({{"--out", f.out}}, {f.model.path});
  static_cast<void>(AtomicFile(f.out));  // a folder that cannot be written is known before the work
  const Model model = load_model(f.model);
  const Message turn{"user", f.prompt};
  const auto tokens = f.raw ? model.encode(f.prompt) : model.encode_chat({&turn, 1});
  const Logits scores = logits(model, tokens, [] { return !interrupted(); });
  if (scores.rows < tokens.size()) return 130;
  save_npy(scores, f.out);
  note(fmt::format("{}: [{}, {}] float32", printable(f.out), scores.rows, scores.vocab));
  return 0;
}

}  // namespace

void add_logits(Command& program) {
  auto f = std::make_shared<LogitsFlags>();
  Command& command = program.add_command("logits", "Write a text's logits to a NumPy file");
  f->model.precision = "f32";  // the reference
  bind_model(command, f->model);
  command.add("-p,--prompt", f->prompt, "The text", {.required = true});
  command.add("--raw", f->raw, "The text as it is, without the chat format");
  command.add("--out", f->out, "File to write: [tokens, vocabulary] float32", {.required = true});
  command.footer(
      "Example:\n  forerun logits -m model.gguf -p \"The sky is\" --raw --out logits.npy");
  command.runs([f] { return run_logits(*f); });
}

}  // namespace forerun::cli
