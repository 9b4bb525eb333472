#include "forerun/formats/tokenizer/internal/regex_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "forerun/base/quote.h"

namespace forerun::internal {

const std::string_view kWhiteSpaceRanges =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

const std::string_view kLetterRanges =
    R"(\p{L}\x{1c89}\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65})"
    R"(\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e})"
    R"(\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10})"
    R"(\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
    R"(\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})"
    R"(\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";

const std::string_view kNumberRanges =
    R"(\p{N}\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59})"
    R"(\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3})"
    R"(\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";

const std::string_view kNumericRanges =
    R"(\p{N}\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11de0}-\x{11de9})"
    R"(\x{11f50}-\x{11f59}\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{16ff4}-\x{16ff6})"
    R"(\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";

namespace {

const std::string_view kUpperRanges =
    R"(\p{Lu}\x{1c89}\x{a7cb}-\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})";
const std::string_view kLowerRanges =
    R"(\p{Ll}\x{1c8a}\x{a7cd}\x{a7db}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})";
const std::string_view kTitleRanges = R"(\p{Lt})";
const std::string_view kModifierRanges =
    R"(\p{Lm}\x{10d4e}\x{10d6f}\x{16d40}-\x{16d42}\x{16d6b}-\x{16d6c}\x{1e030}-\x{1e06d})"
    R"(\x{1e4eb})";
const std::string_view kOtherLetterRanges =
    R"(\p{Lo}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d4d}\x{10d4f}\x{10ec2}-\x{10ec4})"
    R"(\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7})"
    R"(\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33})"
    R"(\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d43}-\x{16d6a})"
    R"(\x{18cff}\x{1b132}\x{1b155}\x{1e4d0}-\x{1e4ea}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
const std::string_view kMarkRanges =
    R"(\p{M}\x{897}\x{cf3}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241})"
    R"(\x{113b8}-\x{113c0}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113d0}\x{113d2})"
    R"(\x{113e1}-\x{113e2}\x{11f00}-\x{11f01}\x{11f03}\x{11f34}-\x{11f3a}\x{11f3e}-\x{11f42})"
    R"(\x{11f5a}\x{13440}\x{13447}-\x{13455}\x{1611e}-\x{1612f}\x{1e08f}\x{1e4ec}-\x{1e4ef})"
    R"(\x{1e5ee}-\x{1e5ef})";
const std::string_view kPunctuationRanges =
    R"(\p{P}\x{1b4e}-\x{1b4f}\x{1b7f}\x{10d6e}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8})"
    R"(\x{11b00}-\x{11b09}\x{11be1}\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})";
const std::string_view kSymbolRanges =
    R"(\p{S}\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{10d8e}-\x{10d8f})"
    R"(\x{1cc00}-\x{1ccef}\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f})"
    R"(\x{1f7d9}\x{1f8b2}-\x{1f8bb}\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89})"
    R"(\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6}\x{1face}-\x{1facf})"
    R"(\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8}\x{1fbcb}-\x{1fbef})";

constexpr std::size_t kMaxPattern = 4096;
constexpr std::string_view kNotWhiteSpaceRanges =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

struct Class {
  std::string_view written, ranges;
  bool negated;
};
constexpr bool kNegated = true;
const std::array<Class, 22>& classes() {
  static const std::array<Class, 22> all = {
      {{R"(\s)", kWhiteSpaceRanges, !kNegated},      {R"(\S)", kWhiteSpaceRanges, kNegated},
       {R"(\p{L})", kLetterRanges, !kNegated},       {R"(\p{N})", kNumberRanges, !kNegated},
       {R"(\P{L})", kLetterRanges, kNegated},        {R"(\P{N})", kNumberRanges, kNegated},
       {R"(\p{Lu})", kUpperRanges, !kNegated},       {R"(\P{Lu})", kUpperRanges, kNegated},
       {R"(\p{Ll})", kLowerRanges, !kNegated},       {R"(\P{Ll})", kLowerRanges, kNegated},
       {R"(\p{Lt})", kTitleRanges, !kNegated},       {R"(\P{Lt})", kTitleRanges, kNegated},
       {R"(\p{Lm})", kModifierRanges, !kNegated},    {R"(\P{Lm})", kModifierRanges, kNegated},
       {R"(\p{Lo})", kOtherLetterRanges, !kNegated}, {R"(\P{Lo})", kOtherLetterRanges, kNegated},
       {R"(\p{M})", kMarkRanges, !kNegated},         {R"(\P{M})", kMarkRanges, kNegated},
       {R"(\p{P})", kPunctuationRanges, !kNegated},  {R"(\P{P})", kPunctuationRanges, kNegated},
       {R"(\p{S})", kSymbolRanges, !kNegated},       {R"(\P{S})", kSymbolRanges, kNegated}}};
  return all;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<std::string> run() {
    while (!rest_.empty() && error_.empty()) in_class_ ? step_in_class() : step();
    if (error_.empty() && in_class_) error_ = "a '[' without ']'";
    if (!error_.empty()) return Error{error_};
    return std::move(out_);
  }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void copy(std::size_t n) {
    out_ += rest_.substr(0, n);
    rest_.remove_prefix(n);
  }
  void refuse(std::size_t n) { error_ = quote(rest_.substr(0, n)); }

  void step() {
    if (rest_.front() == '\\') return escape();
    if (rest_.front() == '(') return open_group();
    if (rest_.front() == '{') return repeat();
    if (take("[")) {
      in_class_ = true;
      out_ += take("^") ? "[^" : "[";
      if (rest_.starts_with("]")) refuse(1);  // a literal ']' first: engines differ
      return;
    }
    if (std::string_view(".^$]}").find(rest_.front()) != rest_.npos) return refuse(1);
    copy(1);
  }

  void step_in_class() {
    if (rest_.front() == '\\') return escape();
    if (rest_.front() == '[' || rest_.starts_with("&&")) return refuse(2);
    in_class_ = rest_.front() != ']';
    copy(1);
  }

  void escape() {
    for (const Class& c : classes()) {
      if (!take(c.written)) continue;
      if (!in_class_) {
        out_ += fmt::format("[{}{}]", c.negated ? "^" : "", c.ranges);
      } else if (!c.negated) {
        out_ += c.ranges;
      } else if (c.written == R"(\S)") {
        out_ += kNotWhiteSpaceRanges;
      } else {
        error_ = fmt::format("'{}' inside [ ]", c.written);
      }
      return;
    }
    const char next = rest_.size() > 1 ? rest_[1] : '\0';
    const bool punctuation =
        next > ' ' && next < 0x7F && !std::isalnum(static_cast<unsigned char>(next));
    if (punctuation || std::string_view("rnt").find(next) != std::string_view::npos) return copy(2);
    refuse(next == 'p' || next == 'P' ? std::min(rest_.find('}'), rest_.size() - 1) + 1 : 2);
  }

  void open_group() {
    for (const std::string_view open : {"(?:", "(?i:", "(?=", "(?!"}) {
      if (rest_.starts_with(open)) return copy(open.size());
    }
    if (rest_.starts_with("(?") || rest_.starts_with("(*")) return refuse(3);
    copy(1);
  }

  void repeat() {
    const std::size_t close = rest_.find('}');
    const std::string_view body = rest_.substr(1, close == rest_.npos ? 0 : close - 1);
    const bool numbers = !body.empty() && body.front() != ',' && body.size() <= 7 &&
                         body.find_first_not_of("0123456789,") == body.npos &&
                         std::count(body.begin(), body.end(), ',') <= 1;
    if (!numbers) return refuse(1);
    copy(close + 1);
    // In Ruby's syntax a{1,3}+ repeats a{1,3}; in Perl's it is possessive.
    if (rest_.starts_with("+")) error_ = "'{m,n}+'";
  }

  std::string_view rest_;
  std::string out_, error_;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> translate_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return Error{
        fmt::format("pattern of {} bytes; at most {} are taken", pattern.size(), kMaxPattern)};
  }
  Result<std::string> out = Translator(pattern).run();
  if (out) return out;
  return Error{fmt::format("pattern {} uses {}, which is not supported", quote(pattern, 200),
                           out.error().message)};
}

}  // namespace forerun::internal
