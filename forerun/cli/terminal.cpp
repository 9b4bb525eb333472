#include "forerun/cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace forerun::cli {
namespace {

std::size_t progress_columns = 0;  // of the line that Progress shows

// Writes over that line, and returns to its start; empty if there is none.
std::string blank_line() {
  const std::size_t columns = std::exchange(progress_columns, 0);
  return columns == 0 ? std::string() : fmt::format("\r{:{}}\r", "", columns);
}

}  // namespace

void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest closed descriptor is the one that open() takes.
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) != fd) std::abort();
  }
}

bool is_terminal(std::FILE* stream) {
  const char* const term = std::getenv("TERM");
  const char* const plain = std::getenv("NO_COLOR");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return isatty(fileno(stream)) != 0 && !dumb && (plain == nullptr || *plain == '\0');
}

std::string styled(std::FILE* stream, Style style, std::string_view text) {
  if (style == Style::kPlain || !is_terminal(stream)) return std::string(text);
  constexpr const char* kCodes[] = {"0", "1", "2", "32", "31", "33"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(style)], text);
}

void write_out(std::string_view text) {
  const bool ok = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
                  (std::fflush(stdout) == 0 || (errno == EINTR && std::fflush(stdout) == 0));
  if (!ok) {
    const int code = errno;
    throw std::runtime_error(
        fmt::format("cannot write to standard output: {}{}", std::strerror(code),
                    code == ENOSPC ? "; free some space or redirect it elsewhere" : ""));
  }
}

void write_json(const nlohmann::json& document) {
  write_out(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void note(std::string_view line) {
  // A closed standard error must not end the program.
  const std::string text = blank_line() + std::string(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Progress::Progress() : on_(isatty(fileno(stderr)) != 0) {}
Progress::~Progress() { clear(); }

void Progress::show(const std::string& line) {
  if (!on_) return;
  const std::string text =
      "\r" + line +
      std::string(progress_columns > line.size() ? progress_columns - line.size() : 0, ' ');
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  progress_columns = line.size();
}

void Progress::clear() {
  const std::string blank = blank_line();
  std::fwrite(blank.data(), 1, blank.size(), stderr);
}

}  // namespace forerun::cli
