#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/api/text_run.h"
#include "forerun/text.h"

namespace forerun {

/// `generate_batch` with an observer of its own.
/// @param requests  of the prompts, distinct; empty: counted from options.request
std::vector<Generated> run(const Model& target, const Drafter& drafter,
                           std::span<const std::vector<Token>> prompts,
                           const GenerateOptions& options, const Listener& listener,
                           const RoundObserver& observer = {},
                           std::span<const std::uint32_t> requests = {});

}  // namespace forerun
