#pragma once

#include <string>

#include "forerun/cli/report/document.h"

namespace forerun::cli::report {

// A section of the page each. Widths are percentages and heights pixels, so text keeps its size on
// a phone; a chart without data says so, an optional one is "".

/// Ratio to plain decoding: a bar a drafter, on all prompts and by category.
std::string speed_chart(const Report& report);
/// Share of the examined drafts that were kept, by draft position.
std::string acceptance_chart(const Report& report);
/// What one target pass over M tokens takes; "" if that was not measured.
std::string cost_chart(const Report& report);
/// Where the time of a round goes.
std::string round_chart(const Report& report);
/// Draft lengths that a controller chose; "" if there was none.
std::string lengths_chart(const Report& report);

/// "<section>" with an id, a heading and a sentence under it; `body` is HTML, the rest is escaped.
std::string section(std::string_view id, std::string_view heading, std::string_view lead,
                    std::string_view body);
/// A table to unfold: the numbers of a chart.
std::string folded(std::string_view summary, std::string_view table);
/// Marker and name of every drafter, for charts whose rows do not carry them.
std::string legend(const std::vector<const Drafter*>& drafters);

}  // namespace forerun::cli::report
