#pragma once

#include <string>
#include <string_view>

namespace forerun::cli {

/// The curves of a training run as one HTML page that needs nothing else: styles, script and
/// numbers are inside, and nothing is fetched. However long the run, the page stays small.
///
/// The page holds {"run": as logged, "epoch", "tokens", "seconds", "resumed": [step, ...],
/// "series", "figures", "held_out": [curve, ...]}, and a curve is {"name", "last", "median",
/// "points": [[step, mean, low, high], ...]}, a point for some neighbouring steps.
///
/// @param log  text of log.jsonl, as train() writes it; whatever is missing or broken is left out
std::string render_training(std::string_view log);

}  // namespace forerun::cli
