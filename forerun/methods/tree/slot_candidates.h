#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// The likeliest tokens of a slot, and what all others weigh together.
struct SlotCandidates {
  static constexpr std::size_t kMost = 64;
  static constexpr float kWithin = 8.0F;  ///< nats below the likeliest, times the temperature

  std::vector<std::int32_t> ids;  ///< columns of the row; empty if its values are not numbers
  double rest = 0.0;              ///< log of the sum of exp(logit) of the others
};

/// At most kMost tokens within kWithin * max(1, temperature) of the likeliest, in no order. Tokens
/// further away count as a weight of 1e-12 of the likeliest.
/// @param logits  [vocab] float32
SlotCandidates slot_candidates(std::span<const float> logits, double temperature);
/// Their log-probabilities at a temperature, in nats.
/// @param logits  of the candidates, in their order: the row's, or changed
std::vector<double> log_laws(const SlotCandidates& of, std::span<const float> logits,
                             double temperature);

}  // namespace forerun
