#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "forerun/core/lane.h"
#include "forerun/forerun.h"
#include "forerun/methods/any_drafter.h"
#include "forerun/methods/text/decoder_target.h"

namespace forerun {

using TextRound = Round<TokenLane, TokenDraft, VerifiedTokens>;

/// Sees every round of a run.
using RoundObserver = std::function<void(const TextRound&)>;

/// `generate_batch` with an observer of its own; what generate, certify, bench and distill share.
/// @param requests  of the prompts, distinct; empty: counted from options.request
std::vector<Generated> run(const Model& target, const Drafter& drafter,
                           std::span<const std::vector<Token>> prompts,
                           const GenerateOptions& options, const Listener& listener,
                           const RoundObserver& observer = {},
                           std::span<const std::uint32_t> requests = {});

}  // namespace forerun
