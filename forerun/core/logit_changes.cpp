#include "forerun/core/logit_changes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace forerun {

void LogitChanges::check(std::size_t vocab) const {
  if (!(repetition_penalty > 0.0) || std::isinf(repetition_penalty)) {
    throw std::invalid_argument("repetition penalty must be a finite number above 0 (1 = none)");
  }
  if (!std::isfinite(frequency_penalty) || !std::isfinite(presence_penalty)) {
    throw std::invalid_argument("frequency and presence penalty must be finite numbers");
  }
  for (const auto& [token, value] : bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab) {
      throw std::invalid_argument("logit bias: the vocabulary has no token " +
                                  std::to_string(token) + ", it ends at " +
                                  std::to_string(vocab - 1));
    }
    if (!std::isfinite(value)) {
      throw std::invalid_argument("logit bias of token " + std::to_string(token) +
                                  " must be a finite number (-100 forbids it in practice)");
    }
  }
}

ChangedLogits::ChangedLogits(const LogitChanges& changes, std::span<const Token> prompt,
                             std::span<const Token> outputs) {
  if (changes.none()) return;
  changes_ = std::make_shared<const LogitChanges>(changes);
  for (const auto& [token, value] : changes.bias) entry_of(token).bias += value;
  if (changes.repetition_penalty != 1.0) {
    for (const Token token : prompt) entry_of(token).seen = true;
  }
  if (changes.grammar) walk_ = changes.grammar->walk();
  for (const Token token : outputs) push(token);
}

void ChangedLogits::push(Token output) {
  if (none()) return;
  if (walk_) outputs_.push_back(output);
  if (!changes_->counts()) return;
  Entry& entry = entry_of(output);
  entry.seen = true;
  ++entry.outputs;
}

ChangedLogits::Entry& ChangedLogits::entry_of(Token token) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), token,
                                   [](const Entry& e, Token t) { return e.token < t; });
  if (at != entries_.end() && at->token == token) return *at;
  return *entries_.insert(at, {.token = token});
}

float ChangedLogits::changed(const Entry& entry, float logit) const noexcept {
  double x = static_cast<double>(logit) + static_cast<double>(entry.bias);
  if (entry.seen) {
    const double penalty = changes_->repetition_penalty;
    x = x > 0.0 ? x / penalty : x * penalty;
  }
  if (entry.outputs > 0) {
    x -= changes_->frequency_penalty * entry.outputs + changes_->presence_penalty;
  }
  return static_cast<float>(x);
}

AllowedTokens ChangedLogits::allowed() const {
  return walk_ ? walk_->after(outputs_) : AllowedTokens();
}

float ChangedLogits::of(Token token, float logit) const noexcept {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), token,
                                   [](const Entry& e, Token t) { return e.token < t; });
  return at != entries_.end() && at->token == token ? changed(*at, logit) : logit;
}

bool ChangedLogits::apply_(std::span<float> logits) const {
  for (const Entry& entry : entries_) {
    if (static_cast<std::size_t>(entry.token) >= logits.size()) break;
    float& logit = logits[static_cast<std::size_t>(entry.token)];
    logit = changed(entry, logit);
  }
  const AllowedTokens possible = allowed();
  if (possible.unknown()) return true;
  if (possible.none()) return false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!possible(static_cast<Token>(i))) logits[i] = -std::numeric_limits<float>::infinity();
  }
  return true;
}

}  // namespace forerun
