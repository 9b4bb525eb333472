#include "forerun/core/backoff_ngram.h"

#include <algorithm>
#include <numbers>
#include <optional>

namespace forerun {
namespace {

using ngram_key::with;

std::uint64_t key_of(std::span<const Token> gram) {
  std::uint64_t key = ngram_key::kEmpty;
  for (const Token token : gram) key = with(key, token);
  return key;
}

}  // namespace

bool BackoffNgram::add(std::span<const Token> gram, const Weights& weights) {
  const std::uint64_t key = key_of(gram);
  if (grams_.find(key) != nullptr) return false;
  grams_[key] = weights;
  ++sizes_[gram.size() - 1];
  for (const Token token : gram) {
    if (token < kUnknown) largest_ = std::max(largest_, token);
  }
  return true;
}

const BackoffNgram::Weights* BackoffNgram::find(std::span<const Token> gram) const noexcept {
  return grams_.find(key_of(gram));
}

std::vector<std::vector<Token>> BackoffNgram::grams(int order) const {
  std::vector<std::uint64_t> keys;
  grams_.for_each([&](std::uint64_t key, const Weights&) {
    if (ngram_key::order(key) == order) keys.push_back(key);
  });
  std::sort(keys.begin(), keys.end());
  std::vector<std::vector<Token>> out;
  for (const std::uint64_t key : keys) out.push_back(ngram_key::tokens(key));
  return out;
}

Token BackoffNgram::known(Token token) const noexcept {
  if (token == kNoToken) return kBegin;
  return grams_.find(with(ngram_key::kEmpty, token)) != nullptr ? token : kUnknown;
}

double BackoffNgram::backoff(std::uint64_t gram) const noexcept {
  const Weights* weights = grams_.find(gram);
  return weights == nullptr ? 0.0 : static_cast<double>(weights->log10_backoff);
}

std::vector<double> BackoffNgram::log_probs(Token before, Token last,
                                            std::span<const Token> next) const {
  const std::uint64_t one = with(ngram_key::kEmpty, known(last));
  // Nothing stands before the beginning.
  const bool begins = last == kNoToken;
  const std::uint64_t two =
      begins ? ngram_key::kEmpty : with(with(ngram_key::kEmpty, known(before)), known(last));
  const double from_two = begins ? 0.0 : backoff(two), from_one = backoff(one);
  // Most tokens are known: the unknown one stands in only after three look-ups.
  const auto log10_of = [&](Token word) -> std::optional<double> {
    if (!begins) {
      if (const Weights* listed = grams_.find(with(two, word))) return listed->log10_p;
    }
    if (const Weights* listed = grams_.find(with(one, word))) return from_two + listed->log10_p;
    const Weights* listed = grams_.find(with(ngram_key::kEmpty, word));
    if (listed == nullptr) return {};
    return from_two + from_one + listed->log10_p;
  };
  std::vector<double> out;
  for (const Token token : next) {
    std::optional<double> log10_p = log10_of(token);
    if (!log10_p) log10_p = log10_of(kUnknown);
    out.push_back(log10_p.value_or(from_two + from_one + kNever) * std::numbers::ln10);
  }
  return out;
}

}  // namespace forerun
