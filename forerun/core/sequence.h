#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/logit_changes.h"
#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/core/sequence_id.h"
#include "forerun/core/token.h"

namespace forerun {

struct RngKey;

/// How the tokens of a sequence are chosen.
struct TokenSettings {
  SamplingParams sampling;
  Rule rule = Rule::kMaximal;
  LogitChanges changes;  ///< of the target's law, before the sampling parameters
};

/// One text being generated: the prompt, the outputs so far, and its end.
class TokenSequence {
 public:
  using Value = Token;
  static constexpr bool kReusesNoise = false;  ///< sampled drafts use random numbers of their round
  /// Called after every output; true ends the sequence (end-of-sequence token, stop string).
  using Ends = std::function<bool(Token)>;

  /// @param prompt   at least one token
  /// @param budget   outputs at most
  /// @param id       tells sequences that live at the same time apart; `request` need not
  TokenSequence(std::uint64_t seed, std::uint32_t request, std::vector<Token> prompt,
                std::size_t budget, Ends ends, const TokenSettings& settings, SequenceId id)
      : seed_(seed),
        id_(id),
        request_(request),
        settings_(settings),
        tokens_(std::move(prompt)),
        changed_(settings.changes, tokens_),
        prompt_(tokens_.size()),
        budget_(budget),
        ends_(std::move(ends)),
        done_(budget == 0) {}
  /// Known by its request.
  TokenSequence(std::uint64_t seed, std::uint32_t request, std::vector<Token> prompt,
                std::size_t budget, Ends ends = {}, const TokenSettings& settings = {})
      : TokenSequence(seed, request, std::move(prompt), budget, std::move(ends), settings,
                      request) {}

  SequenceId id() const noexcept { return id_; }
  const SamplingParams& sampling() const noexcept { return settings_.sampling; }
  /// The changes of the next output's logits.
  const ChangedLogits& changed() const noexcept { return changed_; }
  Rule rule() const noexcept { return settings_.rule; }
  std::uint32_t request() const noexcept { return request_; }  ///< of its random numbers
  std::uint32_t round() const noexcept { return round_; }
  std::span<const Token> tokens() const noexcept { return tokens_; }  ///< prompt and outputs
  std::span<const Token> outputs() const noexcept { return tokens().subspan(prompt_); }
  std::size_t prompt_size() const noexcept { return prompt_; }
  /// Outputs still allowed; a draft of more than remaining() - 1 tokens would be wasted.
  std::size_t remaining() const noexcept { return budget_ - (tokens_.size() - prompt_); }
  bool done() const noexcept { return done_; }

  RngKey key() const noexcept;  ///< randomness of the next output
  RngKey key_at(std::size_t position) const noexcept;
  bool push(Token token) {
    tokens_.push_back(token);
    changed_.push(token);
    done_ = (ends_ && ends_(token)) || remaining() == 0;
    return !done_;
  }
  void next_round() noexcept { ++round_; }

 private:
  std::uint64_t seed_;
  SequenceId id_;
  std::uint32_t request_;
  std::uint32_t round_ = 0;
  TokenSettings settings_;
  std::vector<Token> tokens_;
  ChangedLogits changed_;
  std::size_t prompt_;
  std::size_t budget_;
  Ends ends_;
  bool done_;
};

}  // namespace forerun
