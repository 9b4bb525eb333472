#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/base/huge_pages.h"
#include "forerun/core/token.h"

namespace forerun {

/// What the target predicted after the last one, two and three tokens, where they occurred last:
/// its likeliest tokens. Of bounded size; new contexts take the place of old ones.
/// Source: Token Recycling, Luo et al. 2024, arXiv:2408.08696 (one token of context there).
class Successors {
 public:
  static constexpr std::size_t kOrders = 3;  ///< tokens of context at most
  static constexpr std::size_t kTokens = 8;  ///< of a prediction
  static constexpr std::size_t kStable = 3;
  static constexpr std::size_t kScores = 8;  ///< a token's share of their probability, in bins

  struct Prediction {
    std::array<Token, kTokens> tokens{};        ///< by falling probability
    std::array<std::uint8_t, kTokens> score{};  ///< bins below kScores
    std::uint8_t count = 0;                     ///< of tokens; 0: no logit is a number
    /// How often in a row the likeliest token was the same as before, at most kStable - 1.
    std::uint8_t stable = 0;
  };

  /// @param most  contexts that are kept; a power of two
  explicit Successors(std::size_t most = std::size_t{1} << 17) : most_(most) {}

  /// What logits predict; any number of threads may ask.
  /// @param logits  [vocab] float32
  static Prediction prediction_of(std::span<const float> logits);
  /// Makes it what the last min(kOrders, size) tokens of `context` predict, for each length.
  void learn(std::span<const Token> context, const Prediction& prediction);
  /// The prediction after the last `order` tokens of `context`; null if there is none.
  const Prediction* after(std::span<const Token> context, std::size_t order) const;
  std::size_t size() const noexcept { return used_; }

 private:
  struct Slot {
    std::uint64_t key = 0;  // 0: empty
    Prediction prediction;
  };
  static std::uint64_t key_of(std::span<const Token> context, std::size_t order) noexcept;
  Slot& place(std::uint64_t key);
  void grow();

  std::size_t most_, used_ = 0;
  HugeVector<Slot> slots_;  // open addressing, a power of two
};

}  // namespace forerun
