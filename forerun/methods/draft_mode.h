#pragma once

#include <cstdint>

#include "forerun/core/categorical.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence.h"
#include "forerun/core/token_rule.h"

namespace forerun {

/// How a network with laws for its drafts picks tokens from them.
enum class DraftMode : std::uint8_t {
  kSample,       ///< drawn: what maximal and block need
  kGreedy,       ///< the likeliest: accepted most often by match
  kSharedNoise,  ///< with the noise that will decide the output
};

/// The mode that fits a rule.
DraftMode draft_mode(Rule rule) noexcept;
/// What such a network's drafts of a sequence are to its rule: at temperature 0 they are chosen.
Origin draft_origin(const TokenSequence& sequence) noexcept;
/// Whether noise that a drafter can know decides the sequence's outputs.
bool noise_decides(const TokenSequence& sequence) noexcept;
/// Whether the sequence's rule reads the laws of its drafts.
bool needs_laws(const TokenSequence& sequence) noexcept;
/// The token that the sequence takes from a network's law.
/// @param key  of the token's position
Token drafted_token(const Categorical& law, const TokenSequence& sequence, const RngKey& key);

}  // namespace forerun
