#pragma once

#include "forerun/base/harmony_text.h"
#include "forerun/model.h"
#include "forerun/text.h"

namespace forerun::cli {

/// An answer in OpenAI's harmony format, read by its tokens: the content is what a form holds.
HarmonyParts parts_in_channels(const Generated& answer, const Model& model);

}  // namespace forerun::cli
