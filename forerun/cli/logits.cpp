#include <fmt/format.h>

#include <memory>

#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string prompt, out;
  bool raw = false;
};

int run(const Flags& f) {
  const Model model = load_model(f.model);
  const Message turn{"user", f.prompt};
  const auto tokens = f.raw ? model.encode(f.prompt) : model.encode_chat({&turn, 1});
  const Logits scores = logits(model, tokens);
  save_npy(scores, f.out);
  note(fmt::format("{}: [{}, {}] float32", f.out, scores.rows, scores.vocab));
  return 0;
}

}  // namespace

Action add_logits(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand("logits", "Write a text's logits to a NumPy file");
  f->model.precision = "f32";  // the reference
  bind(*command, f->model);
  command->add_option("-p,--prompt", f->prompt, "The text")->required();
  command->add_flag("--raw", f->raw, "The text as it is, without the chat format");
  command->add_option("--out", f->out, "File to write: [tokens, vocabulary] float32")->required();
  command->footer(
      "Example:\n  forerun logits -m model.gguf -p \"The sky is\" --raw --out logits.npy");
  return [f] { return run(*f); };
}

}  // namespace forerun::cli
