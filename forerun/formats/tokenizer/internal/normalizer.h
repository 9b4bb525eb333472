#pragma once

#include <string>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

/// `text` after all steps, in order.
/// @param text  well-formed UTF-8, not empty
/// NFC is the reference's, which knows no character newer than Unicode 9.
/// Error: the steps make more than 16 times the text, plus 256 bytes; published ones make 3 times.
Result<std::string> normalized(std::string text, const std::vector<NormalizeStep>& steps);

}  // namespace forerun::internal
