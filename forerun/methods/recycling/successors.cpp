#include "forerun/methods/recycling/successors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/core/likeliest.h"

namespace forerun {
namespace {

constexpr std::size_t kFirst = 1024;  // slots
constexpr std::size_t kProbes = 32;   // slots of a key
constexpr std::array<double, Successors::kScores - 1> kBounds = {0.02, 0.05, 0.12, 0.25,
                                                                 0.45, 0.7,  0.9};

std::uint8_t bin_of(double share) {
  return static_cast<std::uint8_t>(std::upper_bound(kBounds.begin(), kBounds.end(), share) -
                                   kBounds.begin());
}

}  // namespace

Successors::Prediction Successors::prediction_of(std::span<const float> logits) {
  const std::vector<Token> tokens = likeliest(logits, kTokens);
  Prediction out;
  out.count = static_cast<std::uint8_t>(tokens.size());
  std::array<double, kTokens> weights{};
  double sum = 0.0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto logit = [&](std::size_t of) {
      return static_cast<double>(logits[static_cast<std::size_t>(tokens[of])]);
    };
    weights[i] = i == 0 ? 1.0 : std::exp(logit(i) - logit(0));
    sum += weights[i];
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    out.tokens[i] = tokens[i];
    out.score[i] = bin_of(weights[i] / sum);
  }
  return out;
}

// The context's tokens, mixed (the finaliser of MurmurHash3). Contexts that collide predict wrong
// tokens, which costs a draft and nothing else.
std::uint64_t Successors::key_of(std::span<const Token> context, std::size_t order) noexcept {
  std::uint64_t h = 0x9e3779b97f4a7c15ULL * order;
  for (const Token token : context.last(order)) {
    h ^= static_cast<std::uint32_t>(token);
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33U;
    h *= 0xc4ceb9fe1a85ec53ULL;
    h ^= h >> 29U;
  }
  return h | 1U;
}

// The slot of a key; an empty or another one's if there is none.
Successors::Slot& Successors::place(std::uint64_t key) {
  const std::size_t mask = slots_.size() - 1;
  const std::size_t home = (key >> 1U) & mask;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots_[(home + i) & mask];
    if (slot.key == key || slot.key == 0) return slot;
  }
  return slots_[(home + (key >> 60U) % kProbes) & mask];
}

void Successors::grow() {
  HugeVector<Slot> old = std::exchange(slots_, {});
  slots_.resize(std::max(kFirst, 2 * old.size()));
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.key == 0) continue;
    Slot& to = place(slot.key);
    used_ += to.key == 0 ? 1 : 0;
    to = slot;
  }
}

void Successors::learn(std::span<const Token> context, const Prediction& prediction) {
  if (prediction.count == 0) return;
  for (std::size_t order = 1; order <= std::min(kOrders, context.size()); ++order) {
    const std::uint64_t key = key_of(context, order);
    const auto crowded = [&] {
      const std::uint64_t there = place(key).key;
      return there != 0 && there != key;
    };
    while (slots_.empty() || (slots_.size() < most_ && crowded())) grow();
    Slot& slot = place(key);
    used_ += slot.key == 0 ? 1 : 0;
    const bool again = slot.key == key && slot.prediction.tokens[0] == prediction.tokens[0];
    const std::uint8_t stable = again ? slot.prediction.stable : 0;
    slot = {.key = key, .prediction = prediction};
    if (again) slot.prediction.stable = std::min<std::uint8_t>(stable + 1, kStable - 1);
  }
}

const Successors::Prediction* Successors::after(std::span<const Token> context,
                                                std::size_t order) const {
  if (slots_.empty() || context.size() < order) return nullptr;
  const std::uint64_t key = key_of(context, order);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Slot& slot = slots_[((key >> 1U) + i) & mask];
    if (slot.key == key) return &slot.prediction;
    if (slot.key == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace forerun
