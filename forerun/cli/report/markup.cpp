#include "forerun/cli/report/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace forerun::cli::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the valid UTF-8 character that `text` begins with, 0 if there is none.
std::size_t valid_prefix(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool beyond = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  const bool noncharacter = first == 0xEF && byte(1) == 0xBF && byte(2) > 0xBD;  // not XML's
  return overlong || beyond || noncharacter ? 0 : length;
}

// The characters of `text`, each a view of valid UTF-8.
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t n = valid_prefix(text);
    const bool control = n == 1 &&
                         (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F) &&
                         text[0] != '\t' && text[0] != '\n';
    out.push_back(n == 0 || control ? kReplacement : text.substr(0, n));
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return out;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const std::string_view c : characters(text)) {
    switch (c.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t limit) {
  const std::vector<std::string_view> all = characters(text);
  if (all.size() <= limit) return std::string(text);
  const std::size_t head = limit / 3, tail = limit - head - 1;
  std::string out;
  for (std::size_t i = 0; i < head; ++i) out += all[i];
  out += "\xE2\x80\xA6";
  for (std::size_t i = all.size() - tail; i < all.size(); ++i) out += all[i];
  return out;
}

std::string fixed(std::optional<double> value, int digits) {
  if (!value || !std::isfinite(*value)) return "n/a";
  if (std::abs(*value) >= 1e6) return fmt::format("{:.2g}", *value);
  return fmt::format("{:.{}f}", *value, digits);
}

std::string with_unit(std::optional<double> value, int digits, std::string_view unit) {
  if (!value || !std::isfinite(*value)) return "n/a";
  return fixed(value, digits) + std::string(unit);
}

std::string count(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "n/a";
  if (std::abs(*value) >= 1e15) return fmt::format("{:.3g}", *value);
  std::string digits = fmt::format("{:.0f}", *value);
  const std::size_t sign = digits.front() == '-' ? 1 : 0;
  for (std::size_t i = digits.size(); i > sign + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string percent(std::optional<double> share) {
  if (!share || !std::isfinite(*share)) return "n/a";
  return fmt::format("{}\xC2\xA0%", fixed(100.0 * *share, 0));
}

std::optional<double> ratio(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || *whole <= 0.0) return std::nullopt;
  const double r = *part / *whole;
  return std::isfinite(r) ? std::optional(r) : std::nullopt;
}

std::string place(double hundredths) {
  // Not std::clamp: a NaN shall not reach the page.
  const double kept = hundredths > 0.0 ? std::min(hundredths, 100.0) : 0.0;
  return fmt::format("{:.2f}%", kept);
}

std::string tooltip(std::string_view text) {
  return fmt::format("<title>{}</title>", escape(text));
}

std::string marker_shapes() {
  // Colour alone must not tell two drafters apart: eight shapes about the origin, 5 px in radius.
  constexpr std::array<std::string_view, kSeries + 1> kPaths = {
      "M-4.5-1.5h9v3h-9z",
      "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0z",
      "M-4.2-4.2h8.4v8.4h-8.4z",
      "M0-5.4l5.2 9.2h-10.4z",
      "M0-5.8l5.4 5.8l-5.4 5.8l-5.4-5.8z",
      "M0 5.4l5.2-9.2h-10.4z",
      "M-1.7-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
      "M0-5.8l1.5 4h4.2l-3.4 2.6l1.3 4.2l-3.6-2.5l-3.6 2.5l1.3-4.2l-3.4-2.6h4.2z",
      "M-5.2 0l2.6-4.5h5.2l2.6 4.5l-2.6 4.5h-5.2z"};
  std::string out = R"(<svg class="shapes" width="0" height="0" aria-hidden="true"><defs>)";
  for (std::size_t i = 0; i < kPaths.size(); ++i) {
    out += fmt::format(R"(<path id="shape{}" d="{}"/>)", i, kPaths[i]);
  }
  return out + "</defs></svg>\n";
}

std::string marker(int series, std::string_view x, std::string_view y, bool hollow) {
  return fmt::format(R"(<use href="#shape{0}" x="{1}" y="{2}" class="mark s{0}{3}"/>)", series, x,
                     y, hollow ? " hollow" : "");
}

std::string key(int series) {
  return fmt::format(R"(<svg class="key" width="14" height="14" aria-hidden="true">{}</svg>)",
                     marker(series, "7", "7"));
}

}  // namespace forerun::cli::report
