#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "forerun/base/utf8.h"
#include "forerun/formats/jinja/internal/jinja_ast.h"

namespace forerun::jinja {
namespace {

using Mark = JinjaToken::Kind;

constexpr std::string_view kJinjaSpace = " \t\n\r\v\f";

class JinjaLexer {
 public:
  explicit JinjaLexer(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        if (i + 1 < text.size() && text[i + 1] == '\n') continue;
        source_ += '\n';
      } else {
        source_ += text[i];
      }
    }
    if (source_.ends_with('\n')) source_.pop_back();
  }

  std::vector<JinjaToken> run() {
    while (at_ < source_.size()) {
      const std::size_t open = next_mark();
      std::string text = source_.substr(at_, open - at_);
      if (open == source_.size()) {
        add(Mark::kText, text);
        at_ = open;
        break;
      }
      const char kind = source_[open + 1];
      std::size_t begin = open + 2;
      const char sign = begin < source_.size() ? source_[begin] : ' ';
      if (sign == '-') {
        text.erase(text.find_last_not_of(kJinjaSpace) + 1);
      } else if (kind != '{' && sign != '+') {
        strip_line(text);
      }
      if (sign == '-' || (sign == '+' && kind != '{')) ++begin;
      if (!text.empty()) add(Mark::kText, text);
      line_ += static_cast<std::size_t>(
          std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                     source_.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
      at_ = begin;
      kind == '#' ? comment() : marks(kind);
    }
    add(Mark::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw JinjaError(fmt::format("line {}: {}", line_, what));
  }
  void add(Mark kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  std::size_t next_mark() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      const char next = source_[i + 1];
      if (source_[i] == '{' && (next == '{' || next == '%' || next == '#')) return i;
    }
    return source_.size();
  }

  // lstrip_blocks: nothing but white space between the line's start and a block.
  void strip_line(std::string& text) const {
    const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_begins_) return;
    if (text.find_first_not_of(" \t\v\f", line) == std::string::npos) text.erase(line);
  }

  // After a mark: white space that it takes along.
  void close(bool strips, bool trims) {
    line_begins_ = false;
    if (strips) {
      while (at_ < source_.size() && kJinjaSpace.find(source_[at_]) != kJinjaSpace.npos) {
        if (source_[at_++] == '\n') ++line_;
      }
      line_begins_ = at_ > 0 && source_[at_ - 1] == '\n';
    } else if (trims && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
      ++line_;
      line_begins_ = true;
    }
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("a comment does not end");
    const bool strips = end > at_ && source_[end - 1] == '-';
    const bool keeps = end > at_ && source_[end - 1] == '+';
    line_ += static_cast<std::size_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 source_.begin() + static_cast<std::ptrdiff_t>(end),
                                                 '\n'));
    at_ = end + 2;
    close(strips, !keeps);
  }

  void marks(char kind) {
    const bool output = kind == '{';
    const std::string end = output ? "}}" : "%}";
    add(output ? Mark::kOpenOutput : Mark::kOpenBlock, "");
    std::size_t open = 0;  // brackets
    for (;;) {
      while (at_ < source_.size() && kJinjaSpace.find(source_[at_]) != kJinjaSpace.npos) {
        if (source_[at_++] == '\n') ++line_;
      }
      if (at_ >= source_.size()) fail("a mark does not end");
      const std::string_view rest = std::string_view(source_).substr(at_);
      const bool signed_end =
          (rest[0] == '-' || (rest[0] == '+' && !output)) && rest.substr(1).starts_with(end);
      if (open == 0 && (rest.starts_with(end) || signed_end)) {
        add(output ? Mark::kCloseOutput : Mark::kCloseBlock, "");
        at_ += end.size() + (signed_end ? 1 : 0);
        return close(signed_end && rest[0] == '-', !output && !signed_end);
      }
      token(rest, open);
    }
  }

  void token(std::string_view rest, std::size_t& open) {
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    const char c = rest[0];
    if (std::isdigit(static_cast<unsigned char>(c))) return number(rest);
    if (is_word(c)) {
      std::size_t n = 1;
      while (n < rest.size() && is_word(rest[n])) ++n;
      add(Mark::kWord, std::string(rest.substr(0, n)));
      at_ += n;
      return;
    }
    if (c == '"' || c == '\'') return string(c);
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (!rest.starts_with(sign)) continue;
      add(Mark::kSign, std::string(sign));
      at_ += 2;
      return;
    }
    if (std::string_view("+-*/%~<>=()[]{},:.|").find(c) == std::string_view::npos) {
      fail(fmt::format("the character {:#x} is not understood", static_cast<unsigned char>(c)));
    }
    if (c == '(' || c == '[' || c == '{') ++open;
    if ((c == ')' || c == ']' || c == '}') && open > 0) --open;
    add(Mark::kSign, std::string(1, c));
    ++at_;
  }

  void number(std::string_view rest) {
    std::size_t n = 0;
    const auto digits = [&] {
      while (n < rest.size() && std::isdigit(static_cast<unsigned char>(rest[n]))) ++n;
    };
    digits();
    bool real = false;
    if (n + 1 < rest.size() && rest[n] == '.' &&
        std::isdigit(static_cast<unsigned char>(rest[n + 1]))) {
      real = true;
      ++n;
      digits();
    }
    if (n > 18) fail("a number has too many digits");
    add(real ? Mark::kFloat : Mark::kInteger, std::string(rest.substr(0, n)));
    at_ += n;
  }

  void string(char mark) {
    std::string out;
    for (++at_; at_ < source_.size() && source_[at_] != mark; ++at_) {
      if (source_[at_] == '\n') ++line_;
      if (source_[at_] != '\\' || at_ + 1 >= source_.size()) {
        out += source_[at_];
        continue;
      }
      escape(source_[++at_], out);
    }
    if (at_ >= source_.size()) fail("a string does not end");
    ++at_;
    add(Mark::kString, std::move(out));
  }

  void escape(char c, std::string& out) {
    constexpr std::string_view kFrom = "nrtbfav0\\'\"", kTo("\n\r\t\b\f\a\v\0\\'\"", 11);
    if (const std::size_t i = kFrom.find(c); i != kFrom.npos) {
      out += kTo[i];
      return;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || at_ + digits >= source_.size()) {  // as Python leaves it
      out += '\\';
      out += c;
      return;
    }
    std::uint32_t code = 0;
    for (std::size_t i = 1; i <= digits; ++i) {
      const char h = source_[at_ + i];
      if (!std::isxdigit(static_cast<unsigned char>(h))) fail("an escape has a wrong digit");
      code = code * 16 +
             static_cast<std::uint32_t>(
                 h <= '9' ? h - '0' : (std::tolower(static_cast<unsigned char>(h)) - 'a' + 10));
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail("an escape is no character");
    out += to_utf8(static_cast<char32_t>(code));
    at_ += digits;
  }

  std::string source_;
  std::size_t at_ = 0, line_ = 1;
  bool line_begins_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

std::vector<JinjaToken> jinja_tokens(std::string_view text) { return JinjaLexer(text).run(); }

}  // namespace forerun::jinja
