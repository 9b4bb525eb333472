#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "forerun/base/quote.h"

namespace forerun::cli {

enum class Style { kPlain, kBold, kDim, kGreen, kRed, kYellow };

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed, so that no file that is
/// opened later becomes standard output or error. Call it first.
void open_standard_streams();

/// True if the stream is a terminal that shows colours (NO_COLOR unset, TERM not dumb).
bool is_terminal(std::FILE* stream);
/// `text` in a style, or as it is where the stream is no terminal.
std::string styled(std::FILE* stream, Style style, std::string_view text);

/// Writes to standard output at once. @throws std::runtime_error  the disk is full, the pipe is
/// closed
void write_out(std::string_view text);
/// One JSON document and a newline on standard output; invalid UTF-8 becomes U+FFFD.
void write_json(const nlohmann::json& document);
/// A line on standard error, in place of the one that Progress shows.
void note(std::string_view line);

/// A line on standard error that is written over by the next; silent where that is no terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& line);
  void clear();

 private:
  bool on_;
};

}  // namespace forerun::cli
