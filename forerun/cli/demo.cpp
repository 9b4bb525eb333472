#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

constexpr const char* kPrompt =
    "Rewrite this text in the past tense: The river rises in the mountains and flows through three "
    "valleys. It turns the wheels of the old mills and waters the fields of the farmers. In spring "
    "the river floods the meadows, and in autumn it carries the leaves of the forest to the sea. "
    "The children of the village learn to swim in the river, and the old men of the village fish "
    "in it.";

struct DemoFlags {
  ModelFlags model;
  DraftFlags draft = {.drafter = "auto"};
  GenerateOptions options;
  std::string prompt = kPrompt;
  std::size_t certificate_tokens = 400;
};

Generated stream(const Model& model, const Drafter& drafter, const std::vector<Token>& prompt,
                 const GenerateOptions& options, const std::string& title) {
  write_out(styled(stdout, Style::kBold, title) + "\n");
  Listener listener;
  listener.on_text = [](std::string_view piece) { write_out(piece); };
  listener.go_on = [] { return !interrupted(); };
  Generated g = generate(model, drafter, prompt, options, listener);
  write_out(fmt::format("\n{}\n\n", styled(stdout, Style::kDim,
                                           fmt::format("{:.1f} tok/s, {}", g.tokens_per_second(),
                                                       tau_text(g.statistics)))));
  return g;
}

void print_equality(const Model& model, const std::vector<Token>& prompt, const Generated& plain,
                    const Generated& drafted, const GenerateOptions& options) {
  const auto d = first_difference(model, prompt, plain.tokens, drafted.tokens, options);
  const bool same = !d || d->tie;
  std::string line =
      d ? "texts      " + describe(*d)
        : fmt::format("texts      equal, token by token ({} tokens)", drafted.tokens.size());
  write_out(styled(stdout, same ? Style::kGreen : Style::kRed, line) + "\n");
  const double ratio = drafted.tokens_per_second() / plain.tokens_per_second();
  write_out(fmt::format("speed      {:.1f} -> {:.1f} tok/s, ratio {}, {}\n",
                        plain.tokens_per_second(), drafted.tokens_per_second(),
                        styled(stdout, Style::kBold, fmt::format("{:.2f}", ratio)),
                        tau_text(drafted.statistics)));
}

// Sampled text cannot be compared word by word: its law is tested, with an exact rule and with one
// that is known to be biased, so that the test is seen to tell them apart.
bool print_certificates(const Model& model, const Drafter& drafter,
                        const std::vector<Token>& prompt, GenerateOptions options,
                        std::size_t tokens) {
  options.sampling.temperature = 1.0;
  options.fixed_draft = true;  // what is not drafted is not tested
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  bool exact_passed = true;
  for (const Rule rule : {Rule::kMaximal, Rule::kTypical}) {
    options.rule = rule;
    Progress progress;
    progress.show(fmt::format("certifying {} at temperature 1 ...", name_of(rule)));
    const Certificate c = certify(model, drafter, {&prompt, 1}, tokens, 128, options, listener);
    progress.clear();
    if (is_exact(rule)) exact_passed = c.passed();
    // A biased rule that slips through has had too few tokens; that is no failure of the exact one.
    const bool as_promised = c.passed() == is_exact(rule);
    const Style style = as_promised ? Style::kGreen : is_exact(rule) ? Style::kRed : Style::kYellow;
    const std::string label =
        fmt::format("{} ({})", name_of(rule), is_exact(rule) ? "exact" : "INEXACT");
    write_out(fmt::format("certificate, T = 1, {:<18} {}\n", label + ":",
                          styled(stdout, style, summary(c))));
    if (interrupted()) break;
  }
  return exact_passed;
}

int run_demo(const DemoFlags& f) {
  if (f.draft.drafter == "none") throw UsageError("demo: needs a drafter; try --drafter auto");
  Progress progress;
  progress.show("loading " + printable(f.model.path) + " ...");
  const Model model = load_model(f.model);
  const Drafter drafter = load_drafter(f.draft.drafter, f.draft.precision, model);
  progress.clear();
  const Message turn{"user", f.prompt};
  const std::vector<Token> prompt = model.encode_chat({&turn, 1});
  const GenerateOptions& options = f.options;
  // The first passes of a process are slow: plain decoding, which comes first, should not pay.
  GenerateOptions warm = options;
  warm.max_tokens = std::min(16U, options.max_tokens);
  static_cast<void>(generate(model, Drafter(), prompt, warm));
  write_out(styled(stdout, Style::kDim, "prompt: " + f.prompt) + "\n\n");
  const Generated plain = stream(model, Drafter(), prompt, options,
                                 fmt::format("plain decoding in {}", name_of(model.precision())));
  if (interrupted()) return 130;
  const Generated drafted = stream(model, drafter, prompt, options, "drafted by " + drafter.name());
  if (interrupted()) return 130;
  print_equality(model, prompt, plain, drafted, options);
  const auto d = first_difference(model, prompt, plain.tokens, drafted.tokens, options);
  const bool certified = print_certificates(model, drafter, prompt, options, f.certificate_tokens);
  if (interrupted()) return 130;
  return certified && (!d || d->tie) ? 0 : 1;
}

}  // namespace

void add_demo(Command& program) {
  auto f = std::make_shared<DemoFlags>();
  f->options.max_tokens = 200;
  Command& command = program.add_command(
      "demo", "Answer a prompt plain and drafted, and check that drafting changed nothing");
  bind_model(command, f->model);
  bind_drafter(command, f->draft, Makes::kTexts);
  command.add("-n,--max-tokens", f->options.max_tokens, "Tokens to generate at most",
              {.least = 1, .most = 1 << 20});
  command.add("--max-draft", f->options.max_draft, "Drafted tokens a round at most",
              {.least = 1, .most = 64});
  command.add("--seed", f->options.seed, "Of the certified texts; the others are greedy");
  command.add("-p,--prompt", f->prompt, "The prompt");
  command.add("--certificate-tokens", f->certificate_tokens, "Outputs to certify",
              {.least = 1, .most = 1000000});
  command.footer("Example:\n  forerun demo -m model.gguf");
  command.runs([f] { return run_demo(*f); });
}

}  // namespace forerun::cli
