#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/chain.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence_id.h"

namespace forerun {

/// One image of a fixed number of tokens, sampled token by token.
///
/// The noise of a token's inner step depends on its position alone: plain sampling and every draft
/// for that place use it, so a draft model with the target's weights gives the plain image bit for
/// bit, and the image does not depend on how often a place was drafted. Exact as for LatentSample:
/// what decides a token (whether it is drafted, and its draft's means) depends on the noise of
/// earlier inner steps only. What judges a draft (Purpose::kAccept, kResidual) depends on the
/// round.
class ChainSample {
 public:
  using Value = ChainToken;
  /// The noise of a discarded draft is used again.
  static constexpr bool kReusesNoise = true;

  struct Options {
    std::uint64_t seed = 0;
    std::uint32_t request = 0;  ///< tells images of one seed apart
    std::size_t tokens = 0;     ///< of the image
    std::int64_t label = 0;     ///< its class
    SequenceId id = 0;          ///< tells samples that live at the same time apart
    bool keep = false;          ///< keep how every token came about, for certificates and traces
  };
  explicit ChainSample(const Options& options) : options_(options) {}

  std::uint32_t request() const noexcept { return options_.request; }
  SequenceId id() const noexcept { return options_.id; }
  std::int64_t label() const noexcept { return options_.label; }
  std::uint32_t round() const noexcept { return round_; }
  std::size_t step() const noexcept { return values_.size(); }    ///< tokens made
  std::size_t steps() const noexcept { return options_.tokens; }  ///< tokens of the image
  const std::vector<Latent>& values() const noexcept { return values_; }
  const std::vector<ChainToken>& tokens() const noexcept { return tokens_; }  ///< if they are kept
  bool done() const noexcept { return step() >= steps(); }

  ChainKey key() const noexcept { return key_at(step()); }
  ChainKey key_at(std::size_t position) const noexcept;
  /// Takes the numbers of inner step `inner` of token `position`, and all later ones, from another
  /// seed. Nothing that decides that step, or an earlier one, may change by that.
  void resample_from(std::size_t position, std::size_t inner, std::uint64_t seed) noexcept {
    resampled_position_ = position;
    resampled_inner_ = inner;
    resampled_seed_ = seed;
  }
  bool push(ChainToken token);
  void next_round() noexcept { ++round_; }
  /// Drops how the tokens came about.
  void forget_tokens() { tokens_.clear(); }

 private:
  Options options_;
  std::uint32_t round_ = 0;
  std::size_t resampled_position_ = SIZE_MAX, resampled_inner_ = 0;
  std::uint64_t resampled_seed_ = 0;
  std::vector<Latent> values_;
  std::vector<ChainToken> tokens_;
};

/// The drafted tokens of one sample and one round. Each chain was drawn with its position's noise
/// from the law beside it, given the drafts before it.
struct ChainDraft {
  using Condition = std::vector<float>;
  std::vector<ChainPath> paths;
  std::vector<ChainLaw> laws;  ///< one a path
  /// In self-drafting: what each path was conditioned on. A path of one state is a mere guess.
  std::vector<Condition> conditions = {};
  std::size_t size() const noexcept { return paths.size(); }
};

/// The target's conditional of a token, as a verifying pass hands it over.
struct ChainConditional {
  ChainLaw law;
  /// A token that was coupled already, in the pass (self-drafting): the rule takes it as it is.
  const Coupled<ChainToken>* coupled = nullptr;
};

/// A rule for tokens with a diffusion head, as the loop applies it. It couples the tokens of
/// several samples at once, because the target is asked again and again while it does.
class ChainRule {
 public:
  /// @throws std::invalid_argument  a rule for other values
  explicit ChainRule(Rule rule);
  Rule rule() const noexcept { return rule_; }
  bool exact() const noexcept { return is_exact(rule_); }
  /// False: drafts after a rejected one are examined too, and emitted, as the published code does.
  bool truncates() const noexcept { return rule_ != Rule::kCode; }

  /// A drafted token, or with no draft the one after all drafts.
  struct Request {
    ChainConditional target;
    const ChainDraft* draft = nullptr;
    std::size_t step = 0;
    ChainKey key;
  };
  std::vector<Coupled<ChainToken>> couple_all(std::span<const Request> requests) const;

 private:
  Rule rule_;
};

}  // namespace forerun
