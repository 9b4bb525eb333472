#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/terminal.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct CompareFlags {
  ModelFlags model, reference;
  GenerateOptions options;
  std::string prompts;
  std::size_t tokens = 4000;
  bool raw = false, json = false;
};

int run_compare(const CompareFlags& f) {
  const std::vector<Prompt> texts = read_prompts(f.prompts);
  const Model model = load_model(f.model);
  ModelFlags flags = f.reference;
  flags.threads = f.model.threads;
  if (flags.path.empty()) flags.path = f.model.path;
  const Model reference = load_model(flags);
  const auto prompts = encode_prompts(model, texts, f.raw);
  Progress progress;
  const Listener listener = counting(progress, f.tokens);
  const Divergence d = compare(reference, model, prompts, f.tokens, f.options, listener);
  progress.clear();
  if (d.tokens == 0) return 130;
  if (f.json) {
    write_json({{"tokens", d.tokens},
                {"kl", d.kl},
                {"worst_kl", d.worst_kl},
                {"top1", d.top1},
                {"precision", name_of(model.precision())},
                {"reference", name_of(reference.precision())},
                {"temperature", f.options.sampling.temperature},
                {"seed", f.options.seed}});
  } else {
    write_out(
        fmt::format("{} against {}, {} tokens of its own text at temperature {}:\n"
                    "KL {:.5f} nats a token (worst {:.3f}), same likeliest token {:.4f}\n",
                    name_of(model.precision()), name_of(reference.precision()), d.tokens,
                    f.options.sampling.temperature, d.kl, d.worst_kl, d.top1));
  }
  return interrupted() ? 130 : 0;
}

}  // namespace

void add_compare(Command& program) {
  auto f = std::make_shared<CompareFlags>();
  f->reference.precision = "f32";
  f->options.sampling.temperature = 0.7;
  f->options.max_tokens = 128;
  f->options.ignore_end = true;
  Command& command = program.add_command(
      "compare", "Measure how far a precision, or another model file, moves the laws");
  bind_model(command, f->model);
  command.add("--reference", f->reference.path, "Model to compare with; default: the same",
              {.means = local_model});
  command.add("--reference-precision", f->reference.precision, "Its precision",
              {.one_of = {"auto", "f32", "bf16", "int8", "int4", "file"}});
  command.add("--prompts", f->prompts, "JSON lines, each with a \"prompt\"", {.required = true});
  command.add("--tokens", f->tokens, "Places to compare, over all prompts",
              {.least = 1, .most = 100000000});
  command.add("-n,--max-tokens", f->options.max_tokens, "Tokens for each prompt at most",
              {.least = 1, .most = 1 << 20});
  command.add("--temp", f->options.sampling.temperature, "Of the texts",
              {.least = 0.0, .most = 1000.0});
  command.add("--seed", f->options.seed, "Of the texts");
  command.add("--raw", f->raw, "Prompts as they are, without the chat format");
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun compare -m model.gguf --precision int8 --prompts prompts.jsonl
  forerun compare -m small.gguf --reference original/ --prompts prompts.jsonl --tokens 1000

The model writes texts; at every place of them the law it gives is held against the reference's.
KL is KL(reference || model) at temperature 1, in nats; 0.01 is hard to tell apart.)");
  command.runs([f] { return run_compare(*f); });
}

}  // namespace forerun::cli
