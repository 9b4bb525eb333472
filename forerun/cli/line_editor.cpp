#include "forerun/cli/line_editor.h"

#include <cstdio>
#include <iostream>

#include "forerun/cli/terminal.h"

#ifdef FORERUN_LIBEDIT
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <string_view>
#include <utility>

#include "forerun/cli/interrupt.h"
#endif

namespace forerun::cli {
namespace {

std::optional<std::string> plain_line() {
  const std::string mark = styled(stderr, Style::kGreen, "> ");
  std::fwrite(mark.data(), 1, mark.size(), stderr);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  while (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

#ifdef FORERUN_LIBEDIT

namespace {

constexpr int kRemembered = 1000;  // messages
constexpr int kPasteGap = 30;      // milliseconds within which the next line of a paste is there

bool can_edit() {
  const char* const term = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && term != nullptr &&
         std::string_view(term) != "dumb";
}

// libedit reads characters of the locale: UTF-8, also where the environment names none.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Between two of the first the terminal is sent what takes no room on the line.
constexpr char kNoRoom = '\1';
char* first_mark(EditLine* /*editor*/) {
  static char coloured[] = "\1\x1b[32m\1>\1\x1b[0m\1 ", plain[] = "> ";
  return is_terminal(stderr) ? coloured : plain;
}
char* next_mark(EditLine* /*editor*/) {
  static char mark[] = "  ";
  return mark;
}

// Whether there is something to read.
bool is_there(int milliseconds) {
  pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&in, 1, milliseconds) == 1 && in.revents != 0;
}

// A character of the locale. A signal between the prompt and a read that blocks would not be heard:
// it is asked for ten times a second.
int next_character(EditLine* /*editor*/, wchar_t* to) {
  std::mbstate_t state{};
  for (;;) {
    while (!interrupted() && !is_there(100)) {
    }
    if (interrupted()) {
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return static_cast<int>(n);
    const std::size_t used = std::mbrtowc(to, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-2)) continue;  // there is more of it
    if (used == static_cast<std::size_t>(-1)) {          // none: left out
      state = {};
      continue;
    }
    return 1;
  }
}

}  // namespace

struct LineEditor::Terminal {
  Terminal() : history(history_init()) {
    use_utf8();
    editor = el_init("forerun", stdin, stderr, stderr);
    if (editor == nullptr || history == nullptr) return;
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kRemembered);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_HIST, &::history, history);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_GETCFN, &next_character);
    for (const auto& [key, action] :
         {std::pair("^R", "em-inc-search-prev"), std::pair("^I", "ed-insert"),
          std::pair("\\e[3~", "ed-delete-next-char"), std::pair("\\e[1~", "ed-move-to-beg"),
          std::pair("\\e[4~", "ed-move-to-end"), std::pair("\\e[H", "ed-move-to-beg"),
          std::pair("\\e[F", "ed-move-to-end"), std::pair("\\e[1;5D", "ed-prev-word"),
          std::pair("\\e[1;5C", "em-next-word")}) {
      el_set(editor, EL_BIND, key, action, nullptr);
    }
    el_source(editor, nullptr);  // ~/.editrc
  }
  ~Terminal() {
    if (editor != nullptr) el_end(editor);
    if (history != nullptr) history_end(history);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool works() const { return editor != nullptr && history != nullptr; }

  // A line with its end; nothing at the end of input or on Ctrl-C.
  std::optional<std::string> line(bool first) const {
    el_set(editor, EL_PROMPT_ESC, first ? &first_mark : &next_mark, kNoRoom);
    el_resize(editor);
    // el_gets does so behind the prompt: Ctrl-C in between would discard what the terminal holds.
    el_set(editor, EL_PREP_TERM, 1);
    int bytes = 0;
    const char* const text = el_gets(editor, &bytes);
    if (text == nullptr || bytes <= 0) return std::nullopt;
    return std::string(text, static_cast<std::size_t>(bytes));
  }

  bool typed() const {
    const LineInfo* const now = el_line(editor);
    return now != nullptr && now->lastchar > now->buffer;
  }

  // Whether more of a paste is there. Meanwhile the terminal must not echo it.
  bool more() const {
    el_set(editor, EL_PREP_TERM, 1);
    const bool there = is_there(kPasteGap);
    el_set(editor, EL_PREP_TERM, 0);
    return there;
  }

  void remember(const std::string& message) const {
    HistEvent event;
    ::history(history, &event, H_ENTER, message.c_str());
  }

  EditLine* editor = nullptr;
  History* history = nullptr;
};

LineEditor::LineEditor() {
  if (can_edit()) terminal_ = std::make_unique<Terminal>();
  if (terminal_ && !terminal_->works()) terminal_.reset();
}

std::optional<std::string> LineEditor::read() {
  if (!terminal_) return plain_line();
  // What was typed during an answer is messages of a line each; what comes later at once is a
  // paste.
  const bool typed_ahead = is_there(0);
  std::string message;
  for (bool first = true;; first = false) {
    auto line = terminal_->line(first);
    if (interrupted()) {
      const bool discarded = line || !first || terminal_->typed();
      clear_interrupt();
      if (!discarded || interrupted()) return std::nullopt;
      std::fputs("^C\n", stderr);
      return std::string();
    }
    if (!line && first) return std::nullopt;
    if (!line) break;
    const bool paste = !typed_ahead && terminal_->more();
    while (line->ends_with('\n') || line->ends_with('\r')) line->pop_back();
    const bool continued = !paste && line->ends_with('\\');
    if (continued) line->pop_back();
    message += *line;
    if (!paste && !continued) break;
    message += '\n';
  }
  while (message.ends_with('\n')) message.pop_back();
  if (!message.empty()) terminal_->remember(message);
  return message;
}

#else

struct LineEditor::Terminal {};
LineEditor::LineEditor() = default;
std::optional<std::string> LineEditor::read() { return plain_line(); }

#endif

LineEditor::~LineEditor() = default;

}  // namespace forerun::cli
