#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/tensor/cpu/aligned_buffer.h"

namespace forerun::internal {

/// Which experts the rows of a pass use, and what the outputs of those are multiplied by. A row's
/// choice depends on its own logits alone. Of equal scores, and of equal groups, the first wins.
class ExpertChoice {
 public:
  explicit ExpertChoice(const BlockConfig& config) : c_(config) {}

  /// For a pass of `rows` rows.
  void start(std::int64_t rows);
  /// Of several threads, each for rows of its own.
  /// @param logits      [experts]; scores when it returns
  /// @param correction  [experts]; empty unless ExpertRouting::corrected
  /// @param chosen      [experts_used]: falling by (corrected) scores; different ones, and within
  /// the range, whatever the logits are
  /// @param shares      [experts_used]: of these
  void choose(std::int64_t row, std::span<float> logits, std::span<const float> correction,
              std::span<std::int32_t> chosen, std::span<float> shares);

 private:
  bool decides_by_scores() const noexcept {
    return !c_.routing.corrected && c_.routing.groups == 1;
  }
  std::span<const float> choice(std::int64_t row, std::span<const float> scores,
                                std::span<const float> correction);
  void keep_likely_groups(std::int64_t row, std::span<float> choice);

  BlockConfig c_;
  AlignedBuffer<float> choices_, sums_;  // [rows, experts], [rows, groups]
  std::vector<std::int32_t> groups_;     // [rows, groups_used]
};

}  // namespace forerun::internal
