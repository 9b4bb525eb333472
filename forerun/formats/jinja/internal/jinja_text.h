#pragma once

#include <compare>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/formats/marked_text.h"

namespace forerun::jinja {

/// What a template does wrong; ends the rendering.
struct JinjaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// raise_exception's message.
struct JinjaRaised : JinjaError {
  using JinjaError::JinjaError;
};

/// A text that knows which of its bytes were given to the template and which are the template's
/// own, through cutting and joining. UTF-8, well-formed.
class JinjaText {
 public:
  JinjaText() = default;
  JinjaText(std::string bytes, bool given = false);                // NOLINT: implicit by design
  JinjaText(const char* bytes) : JinjaText(std::string(bytes)) {}  // NOLINT

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Rising and apart.
  const std::vector<TextRange>& given() const { return given_; }

  JinjaText part(std::size_t begin, std::size_t n = std::string::npos) const;
  /// Other bytes at the same places. @param bytes  [size()]
  JinjaText replaced(std::string bytes) const;
  /// At the end. @throws JinjaError  longer than 64 MiB
  void add(const JinjaText& more);
  void write(std::string_view own);

  /// The bytes alone count.
  friend bool operator==(const JinjaText& a, const JinjaText& b) { return a.bytes_ == b.bytes_; }
  friend auto operator<=>(const JinjaText& a, const JinjaText& b) { return a.bytes_ <=> b.bytes_; }

 private:
  void grow(std::string_view more);

  std::string bytes_;
  std::vector<TextRange> given_;
};

/// How many Unicode characters a text has.
std::size_t jinja_length(std::string_view text);
/// Where its character i begins; its end, for the number of them.
std::size_t jinja_place(std::string_view text, std::size_t i);

}  // namespace forerun::jinja
