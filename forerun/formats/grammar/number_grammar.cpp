#include "forerun/formats/grammar/number_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace forerun {
namespace {

constexpr std::size_t kMostDigits = 18;  // 64 bits hold them
constexpr const char* kFraction = R"(("." [0-9]{1,9})?)";
constexpr const char* kAboveZero = R"("." [0-9]{0,8} [1-9])";
constexpr const char* kZeros = R"(("." "0"{1,9})?)";

std::string any_digits(std::size_t n) {
  return n == 0 ? "" : n == 1 ? " [0-9]" : fmt::format(" [0-9]{{{}}}", n);
}

bool all(const std::string& s, char c) { return s.find_first_not_of(c) == std::string::npos; }

// Alternatives for the numbers between two of equally many digits.
void same_length(const std::string& prefix, const std::string& low, const std::string& high,
                 std::vector<std::string>& out) {
  std::size_t same = 0;
  while (same < low.size() && low[same] == high[same]) ++same;
  const std::string begin = prefix + low.substr(0, same);
  if (same == low.size()) {
    out.push_back(fmt::format("\"{}\"", begin));
    return;
  }
  const std::string low_rest = low.substr(same + 1), high_rest = high.substr(same + 1);
  char first = low[same], last = high[same];
  if (!all(low_rest, '0')) {
    same_length(begin + first, low_rest, std::string(low_rest.size(), '9'), out);
    ++first;
  }
  const bool up_to_all = all(high_rest, '9');
  if (!up_to_all) --last;
  if (first <= last) {
    const std::string quoted = begin.empty() ? "" : fmt::format("\"{}\" ", begin);
    out.push_back(fmt::format("{}[{}-{}]{}", quoted, first, last, any_digits(low_rest.size())));
  }
  if (!up_to_all) {
    same_length(begin + high[same], std::string(high_rest.size(), '0'), high_rest, out);
  }
}

// Alternatives for the numbers from `low` on, none of them negative.
void not_negative(std::int64_t low, std::optional<std::int64_t> high,
                  std::vector<std::string>& out) {
  if (high && *high < low) return;
  std::string from = std::to_string(low);
  const std::string to = high ? std::to_string(*high) : std::string(from.size(), '9');
  while (from.size() < to.size()) {
    same_length("", from, std::string(from.size(), '9'), out);
    from.assign(from.size() + 1, '0');
    from.front() = '1';
  }
  same_length("", from, to, out);
  if (!high) out.push_back(fmt::format("[1-9] [0-9]{{{},{}}}", from.size(), kMostDigits - 1));
}

std::string one_of(const std::vector<std::string>& alternatives) {
  return alternatives.empty() ? "" : fmt::format("({})", fmt::join(alternatives, " | "));
}

// Numbers x >= 0 within bounds, `sign` before them.
void decimals(const std::string& sign, std::int64_t low, bool above,
              std::optional<std::int64_t> high, bool below, std::vector<std::string>& out) {
  if (high && (*high < low || (*high == low && (above || below)))) return;
  const auto add = [&](const std::string& whole, const char* rest) {
    if (!whole.empty()) out.push_back(fmt::format("{} {} {}", sign, whole, rest));
  };
  if (high && *high == low) return add(fmt::format("\"{}\"", low), kZeros);
  std::vector<std::string> whole;
  if (above) add(fmt::format("\"{}\"", low), kAboveZero);
  not_negative(above ? low + 1 : low, high ? std::optional(*high - 1) : std::nullopt, whole);
  add(one_of(whole), kFraction);
  if (high && !below) add(fmt::format("\"{}\"", *high), kZeros);
}

}  // namespace

std::string integer_expression(std::optional<std::int64_t> least,
                               std::optional<std::int64_t> most) {
  std::vector<std::string> out, negative;
  if (!most || *most >= 0) not_negative(std::max<std::int64_t>(0, least.value_or(0)), most, out);
  if (!least || *least < 0) {
    const std::int64_t nearest = most ? std::max<std::int64_t>(1, -*most) : 1;
    not_negative(nearest, least ? std::optional(-*least) : std::nullopt, negative);
  }
  if (!negative.empty()) out.push_back("\"-\" " + one_of(negative));
  return one_of(out);
}

std::string number_expression(const NumberBounds& b) {
  std::vector<std::string> out;
  if (!b.most || *b.most >= 0) {
    const bool from_least = b.least && *b.least >= 0;
    decimals("", from_least ? *b.least : 0, from_least && b.above_least, b.most, b.below_most, out);
  }
  if (!b.least || *b.least < 0) {
    const bool from_most = b.most && *b.most <= 0;
    // Zero is written without a sign.
    decimals("\"-\"", from_most ? -*b.most : 0, !from_most || *b.most == 0 || b.below_most,
             b.least ? std::optional(-*b.least) : std::nullopt, b.above_least, out);
  }
  return one_of(out);
}

}  // namespace forerun
