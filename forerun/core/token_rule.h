#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "forerun/core/block.h"
#include "forerun/core/couple.h"
#include "forerun/core/rule.h"

namespace forerun {

struct RngKey;

/// The origin of the tokens of a draft; it decides which couplings are exact for them.
enum class Origin : std::uint8_t {
  kChosen,    ///< found without a law (lookup)
  kSearched,  ///< the best under a law (argmax, beam): a point mass, although `laws` scored it
  kSampled,   ///< each token drawn from its law
};

/// The drafted tokens of one sequence and one round.
struct TokenDraft {
  std::vector<Token> tokens;
  std::vector<Categorical>
      laws;  ///< one a token, or none if the origin is kChosen; views of the drafter's rows
  Origin origin = Origin::kChosen;
  std::uint8_t confidence_bin =
      0;  ///< 0 to 7: the drafter's estimate of its acceptance before any token

  std::size_t size() const noexcept { return tokens.size(); }
};

/// A rule for tokens, as the loop applies it.
class TokenRule {
 public:
  explicit TokenRule(Rule rule) noexcept : rule_(rule) {}
  Rule rule() const noexcept { return rule_; }

  /// Decides over a whole draft; nothing if the rule decides token by token: `block` does so unless
  /// the draft was sampled and the target is not greedy.
  /// @param conditional, key  of a draft step; only the rows it needs are asked for
  /// @throws std::invalid_argument  as `couple`
  std::optional<Block> decide(const TokenDraft& draft,
                              const std::function<const TokenLaw&(std::size_t step)>& conditional,
                              const std::function<RngKey(std::size_t step)>& key) const;
  /// Couples drafted token `step` as decided.
  Coupled<Token> couple(const TokenLaw& target, const TokenDraft& draft, std::size_t step,
                        const RngKey& key, const std::optional<Block>& decided) const;
  /// Couples drafted token `step` with the target's conditional there, by itself.
  /// @throws std::invalid_argument  the rule does not fit the draft (a sampled draft, or
  /// ratio-on-search, without laws)
  Coupled<Token> couple(const TokenLaw& target, const TokenDraft& draft, std::size_t step,
                        const RngKey& key) const;
  /// An output without a draft.
  Token draw(const TokenLaw& target, const RngKey& key) const;

 private:
  Rule rule_;
};

}  // namespace forerun
