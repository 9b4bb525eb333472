#pragma once

#include <memory>
#include <optional>
#include <string>

namespace forerun::cli {

/// Reads the user's messages from standard input.
///
/// At a terminal lines can be edited and recalled (libedit, with the user's ~/.editrc): arrow keys,
/// Ctrl-R searches. A message has several lines where one ends in a backslash, or where they arrive
/// at once, as pasted ones do. Without a terminal, or in a build without libedit, every line that
/// is read is a message.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Shows a mark on standard error and reads a message, without its last line end. Ctrl-C discards
  /// what was typed.
  /// @return nothing at the end of input, or on Ctrl-C where nothing was typed
  std::optional<std::string> read();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: plain lines
};

}  // namespace forerun::cli
