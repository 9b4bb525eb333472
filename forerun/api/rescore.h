#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "forerun/base/interrupted.h"
#include "forerun/model.h"

namespace forerun {

/// Scores a finished text by plain passes of the target over a cache of their own: no draft, no
/// rollback, nothing the drafted run computed.
/// @param visit  called for every output i with its [vocab] float32 logits, which it may reshape in
/// place
/// @throws Interrupted  go_on, which is asked between passes, was false
void rescore(const Model& target, std::span<const Token> prompt, std::span<const Token> outputs,
             const std::function<void(std::size_t, std::span<float>)>& visit,
             const GoOn& go_on = {});

/// @throws UsageError  a token that the model does not have
void expect_in_vocabulary(const Model& model, std::span<const Token> tokens);

/// Margins of logits below it are rounding: two passes of different shape may order two tokens
/// differently.
double tie_margin(Precision precision) noexcept;

}  // namespace forerun
