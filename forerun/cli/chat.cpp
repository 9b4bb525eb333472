#include <fmt/format.h>

#include <memory>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/line_editor.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/engine.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct ChatFlags {
  ModelFlags model;
  DraftFlags draft = {.drafter = "auto"};
  GenerateOptions text;
  std::string system, template_variables, generation_config = "auto";
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

// The engine still has the keys and values of earlier turns: only what is new is read.
TextResult answer(Engine& engine, RequestId id) {
  for (;;) {
    for (Event& event : engine.step()) {
      if (const auto* piece = std::get_if<TextPiece>(&event)) write_out(piece->text);
      if (const auto* failed = std::get_if<Failed>(&event)) throw UsageError(failed->message);
      if (auto* finished = std::get_if<TextFinished>(&event)) return std::move(finished->result);
    }
    if (interrupted()) engine.cancel(id);
  }
}

void show(const TextResult& text) {
  const double rate =
      text.seconds > 0.0 ? static_cast<double>(text.tokens.size()) / text.seconds : 0.0;
  write_out("\n");
  note(styled(
      stderr, Style::kDim,
      fmt::format("{:.1f} tok/s, {}, read in {:.2f} s{}{}", rate, tau_text(text.statistics),
                  text.prefill_seconds,
                  text.shared_tokens > 0 ? fmt::format(" ({} tokens known)", text.shared_tokens)
                                         : std::string(),
                  text.finish == Finish::kInterrupted ? ", interrupted" : "")));
}

int run_chat(const ChatFlags& f, const Command& command) {
  const Model model = load_model(f.model);
  const Drafter drafter = load_drafter(f.draft.drafter, f.draft.precision, model);
  GenerateOptions options = text_options(f.text, f.draft);
  take_recommended(options.sampling, options.changes, model, command, f.generation_config);
  const Message probe{"user", "hello"};
  const ChatInput input{.variables = f.template_variables};
  // A model without a chat format is refused before the first question.
  model.encode_chat({&probe, 1}, input);
  note_chat(model);
  Conversation talk(f.system);
  Engine engine;
  RunStatistics total;
  LineEditor editor;
  note(styled(stderr, Style::kDim,
              fmt::format("{}, drafter {}; /clear forgets the conversation, /exit ends it; Ctrl-C "
                          "stops an answer",
                          name_of(model.precision()), printable(drafter.name()))));
  for (;;) {
    const auto line = editor.read();
    if (!line || *line == "/exit" || interrupted()) break;
    if (line->empty()) continue;
    if (*line == "/clear") {
      talk.clear();
      continue;
    }
    talk.turns_.push_back({"user", *line});
    try {
      const RequestId id =
          engine.submit(model, drafter, model.encode_chat(talk.turns_, input), options);
      const TextResult text = answer(engine, id);
      show(text);
      talk.turns_.push_back({"assistant", text.text});
      total.add(text.statistics);
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
  bind_generation_config(command, f->generation_config);
  command.add("--system", f->system, "System message", {.old = "--system-prompt"});
  bind_template_variables(command, f->template_variables);
  command.footer(
      R"(At a terminal lines can be edited; the up arrow and Ctrl-R find earlier messages. A message has several
lines if it is pasted, or where a line ends in a backslash. /clear forgets the conversation, /exit or Ctrl-D
ends it; Ctrl-C stops an answer, or discards what was typed.

Examples:
  forerun chat -m model.gguf
  forerun chat -m model.gguf --system "Answer in one sentence." --temp 0)");
  command.runs([f, &command] { return run_chat(*f, command); });
}

}  // namespace forerun::cli
