#pragma once

#include "forerun/methods/any_drafter.h"
#include "forerun/text.h"

namespace forerun {

/// What proposes in one run, going on from what earlier runs with this drafter learned.
/// @param go_on  asked while a drafting model reads prompts
AnyDrafter make_drafter(const Model& target, const Drafter& drafter, const GenerateOptions& options,
                        const GoOn& go_on);

/// Keeps for later runs what this one learned, where that is allowed: not with sampled drafts.
void keep_learned(const Model& target, const Drafter& drafter, const GenerateOptions& options,
                  const AnyDrafter& proposer);

}  // namespace forerun
