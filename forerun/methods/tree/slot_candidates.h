#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// The likeliest tokens of a slot, and what all others weigh together.
struct SlotCandidates {
  /// How many: at most `most` within `within` * max(1, temperature) nats of the likeliest. Tokens
  /// further away count as a weight of 1e-12 of the likeliest.
  struct Bounds {
    std::size_t most;
    float within;
  };
  static constexpr Bounds kDrafted{64, 8.0F};
  /// Before what the token before the slot adds, which may bring tokens to the front. What lies
  /// behind both bounds and kDrafted's counts as far away here.
  static constexpr Bounds kShortlist{256, 12.0F};
  /// Of a row of so many tokens: those drafted, or a shortlist if the token before the slot
  /// `conditions` it. Of a short row fewer do: with 4,096 tokens 128 bring as many outputs as 256.
  static constexpr Bounds bounds_of(std::size_t row, bool conditions) noexcept {
    if (!conditions) return kDrafted;
    return {std::clamp(row / 32, 2 * kDrafted.most, kShortlist.most), kShortlist.within};
  }

  std::vector<std::int32_t> ids;  ///< columns of the row; empty if its values are not numbers
  std::vector<float> logits;      ///< theirs
  /// What the others weigh, as one logit: T * log of the sum of exp(logit / T).
  double rest = 0.0;
  bool complete = false;  ///< nothing else can be drafted, whatever comes before the slot
};

/// The candidates of a row, in no order.
/// @param logits  [vocab] float32
SlotCandidates slot_candidates(std::span<const float> logits, double temperature,
                               SlotCandidates::Bounds bounds = SlotCandidates::kDrafted);
/// Those of a shortlist within kDrafted by other logits; theirs stay what they were.
/// @param logits  of the shortlist, in its order
/// @param temperature  that of the shortlist
SlotCandidates slot_candidates(const SlotCandidates& shortlist, std::span<const float> logits,
                               double temperature);
/// Their probabilities at a temperature.
/// @param logits  of the candidates, in their order: the row's, or changed
std::vector<double> laws(const SlotCandidates& of, std::span<const float> logits,
                         double temperature);
/// The logarithms of these, in nats.
/// @param logits  of the candidates, in their order: the row's, or changed
std::vector<double> log_laws(const SlotCandidates& of, std::span<const float> logits,
                             double temperature);

}  // namespace forerun
