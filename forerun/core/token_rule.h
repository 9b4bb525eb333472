#pragma once

#include <algorithm>
#include <cstddef>
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
  /// Of a tree: the token that each one follows, an earlier one, or -1, the text. Empty: a chain.
  /// Trees are deterministic drafts.
  std::vector<std::int32_t> parents = {};
  std::vector<Categorical>
      laws;  ///< one a token, or none if the origin is kChosen; views of the drafter's rows
  Origin origin = Origin::kChosen;
  std::uint8_t confidence_bin =
      0;  ///< 0 to 7: the drafter's estimate of its acceptance before any token

  std::size_t size() const noexcept { return tokens.size(); }
  bool tree() const noexcept { return !parents.empty(); }
  /// The token that drafted token `i` follows; -1 the text.
  std::int32_t parent(std::size_t i) const noexcept {
    return tree() ? parents[i] : static_cast<std::int32_t>(i) - 1;
  }
  /// The drafted token equal to `token` that follows token `after`, -1 the text; -1 if none does.
  std::int32_t following(std::int32_t after, Token token) const noexcept {
    for (std::size_t i = static_cast<std::size_t>(after) + 1; i < tokens.size(); ++i) {
      if (parent(i) == after && tokens[i] == token) return static_cast<std::int32_t>(i);
    }
    return -1;
  }
  /// Whether any drafted token follows it.
  bool continues(std::int32_t after) const noexcept {
    if (!tree()) return static_cast<std::size_t>(after) + 1 < tokens.size();
    return std::find(parents.begin() + after + 1, parents.end(), after) != parents.end();
  }
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
