#pragma once

#include <cstdint>

#include "forerun/core/rule.h"

namespace forerun {

/// How a network with laws for its drafts picks tokens from them.
enum class DraftMode : std::uint8_t {
  kSample,       ///< drawn: what maximal and block need
  kGreedy,       ///< the likeliest: accepted most often by match
  kSharedNoise,  ///< with the noise that will decide the output
};

/// The mode that fits a rule.
DraftMode draft_mode(Rule rule) noexcept;

}  // namespace forerun
