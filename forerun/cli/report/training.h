#pragma once

#include <string>
#include <string_view>

namespace forerun::cli {

/// The curves of a training run as one HTML page that needs nothing else: styles and SVG are
/// inside, no script, no request. The page is also well-formed XML.
/// @param log  text of log.jsonl, as train() writes it; whatever is missing or broken is left out
std::string render_training(std::string_view log);

}  // namespace forerun::cli
