#pragma once

#include <string>
#include <vector>

#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

/// `text` after all steps, in order.
/// @param text  well-formed UTF-8, not empty
/// NFC is the reference's, which knows no character newer than Unicode 9.
std::string normalized(std::string text, const std::vector<NormalizeStep>& steps);

}  // namespace forerun::internal
