#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forerun::cli::report {

/// `text` for HTML content and quoted attributes: the five special characters as references,
/// control characters and invalid UTF-8 as U+FFFD.
std::string escape(std::string_view text);
/// At most `limit` characters of valid or invalid UTF-8, the middle replaced by an ellipsis: paths
/// are told apart by their ends. Not escaped.
std::string shortened(std::string_view text, std::size_t limit);

/// "12.34" with `digits` behind the point, "1.2e+09" where that is long, "n/a" for nothing.
std::string fixed(std::optional<double> value, int digits);
/// The same with a unit behind the number: "1.24×", "6.1 ms".
std::string with_unit(std::optional<double> value, int digits, std::string_view unit);
/// "5,313", or "n/a".
std::string count(std::optional<double> value);
/// A share as "72 %", or "n/a".
std::string percent(std::optional<double> share);
/// `part / whole`, or nothing where that is no number.
std::optional<double> ratio(std::optional<double> part, std::optional<double> whole);
/// A position on a chart in percent of its width or height, kept within [0, 100]: "43.21%".
std::string place(double hundredths);

/// The tooltip of what it stands in.
std::string tooltip(std::string_view text);
/// Series 0 is plain decoding; the drafters follow and start again behind kSeries.
inline constexpr int kSeries = 8;
/// Shapes that `marker` refers to, once a page.
std::string marker_shapes();
/// The shape of a series inside an SVG, at "x", "y" (lengths or percentages).
std::string marker(int series, std::string_view x, std::string_view y, bool hollow = false);
/// The shape of a series inside a line of text.
std::string key(int series);

}  // namespace forerun::cli::report
