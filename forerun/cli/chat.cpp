#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {
namespace {

struct ChatFlags {
  ModelFlags model;
  DraftFlags draft = {.drafter = "lookup"};
  GenerateOptions text;
  std::string system;
};

class Conversation {
 public:
  explicit Conversation(const std::string& system) : system_(system) { clear(); }
  void clear() {
    turns_.clear();
    if (!system_.empty()) turns_.push_back({"system", system_});
  }
  std::vector<Message> turns_;

 private:
  std::string system_;
};

// Reads one line; nothing at the end of input or on Ctrl-C at the prompt.
std::optional<std::string> ask() {
  const std::string mark = styled(stderr, Style::kGreen, "> ");
  std::fwrite(mark.data(), 1, mark.size(), stderr);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  while (line.ends_with('\r')) line.pop_back();
  return line;
}

void answer(const Model& model, const Drafter& drafter, const GenerateOptions& options,
            Conversation& talk, RunStatistics& total) {
  Listener listener;
  listener.on_text = [](std::string_view piece) { write_out(piece); };
  listener.go_on = [] { return !interrupted(); };
  const Generated g = generate(model, drafter, model.encode_chat(talk.turns_), options, listener);
  write_out("\n");
  note(styled(stderr, Style::kDim,
              fmt::format("{:.1f} tok/s, {}{}", g.tokens_per_second(), tau_text(g.statistics),
                          g.finish == Finish::kInterrupted ? ", interrupted" : "")));
  talk.turns_.push_back({"assistant", g.text});
  total.add(g.statistics);
}

int run_chat(const ChatFlags& f) {
  const Model model = load_model(f.model);
  const Drafter drafter = load_drafter(f.draft.drafter, f.draft.precision, model);
  GenerateOptions options = text_options(f.text, f.draft);
  const Message probe{"user", "hello"};
  model.encode_chat(
      {&probe, 1});  // a model without a chat format is refused before the first question
  Conversation talk(f.system);
  RunStatistics total;
  note(styled(stderr, Style::kDim,
              "/clear forgets the conversation, /exit ends it; Ctrl-C stops an answer"));
  for (;;) {
    const auto line = ask();
    if (!line || *line == "/exit" || interrupted()) break;
    if (line->empty()) continue;
    if (*line == "/clear") {
      talk.clear();
      continue;
    }
    talk.turns_.push_back({"user", *line});
    try {
      answer(model, drafter, options, talk, total);
    } catch (const UsageError& e) {
      // The conversation outgrew the context, say: the user can clear it and continue.
      talk.turns_.pop_back();
      note(fmt::format("{} (/clear starts over)", printable(e.what(), 1000)));
    }
    clear_interrupt();
    ++options.request;
  }
  note(styled(stderr, Style::kDim, fmt::format("in all: {}", tau_text(total))));
  return 0;
}

}  // namespace

void add_chat(Command& program) {
  auto f = std::make_shared<ChatFlags>();
  f->text.sampling.temperature = 0.7;
  f->text.max_tokens = 1024;
  Command& command = program.add_command("chat", "Talk with a model in the terminal");
  bind_model(command, f->model);
  bind_drafter(command, f->draft, Makes::kTexts);
  bind_drafting(command, f->draft, Makes::kTexts, "15");
  bind_text(command, f->text, f->draft);
  command.add("--system", f->system, "System message");
  command.footer(R"(Examples:
  forerun chat -m model.gguf
  forerun chat -m model.gguf --system "Answer in one sentence." --temp 0)");
  command.runs([f] { return run_chat(*f); });
}

}  // namespace forerun::cli
