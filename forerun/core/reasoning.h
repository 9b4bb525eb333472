#pragma once

#include <cstdint>

namespace forerun {

/// Where a text stands, when it begins, in the reasoning that some models write before their
/// answer, as <think>...</think>, or in messages of their own.
enum class ReasoningStart : std::uint8_t {
  kBefore,    ///< it may begin with <think>
  kInside,    ///< the prompt ends in <think>
  kAfter,     ///< the text is the answer: thinking is off
  kChannels,  ///< it may begin with the header of a message, in OpenAI's harmony format
};

}  // namespace forerun
