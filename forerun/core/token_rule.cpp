#include "forerun/core/token_rule.h"

#include <array>
#include <stdexcept>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"maximal", "match", "shared-noise", "typical",
                                                    "ratio-on-search"};

}  // namespace

std::string_view name_of(Rule rule) noexcept { return kNames[static_cast<std::size_t>(rule)]; }

std::optional<Rule> rule_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Rule>(i);
  }
  return std::nullopt;
}

Coupled<Token> TokenRule::couple(const TokenLaw& target, const TokenDraft& draft, std::size_t step,
                                 const RngKey& key) const {
  const Token drafted = draft.tokens[step];
  if (const auto* decided = std::get_if<PointMass>(&target)) {
    return forerun::couple(*decided, PointMass{drafted});
  }
  const Categorical& law = std::get<Categorical>(target);
  switch (rule_) {
    case Rule::kMaximal:
      if (draft.origin == Origin::kSampled) {
        if (draft.laws.size() <= step) {
          throw std::invalid_argument(
              "maximal needs the law every sampled token was drawn from: fill TokenDraft::laws, or "
              "mark the draft kChosen");
        }
        return forerun::couple(law, draft.laws[step], drafted, key);
      }
      return forerun::couple(law, PointMass{drafted}, key);
    case Rule::kMatch:
      return forerun::couple(law, PointMass{drafted}, key);
    case Rule::kSharedNoise:
      return couple_shared_noise(law, drafted, key);
    case Rule::kTypical:
      return couple_typical(law, drafted, key);
    case Rule::kRatioOnSearch:
      if (draft.laws.size() <= step) {
        throw std::invalid_argument(
            "ratio-on-search needs a drafter that scores its drafts (draft-model); this one only "
            "finds them: use --rule maximal");
      }
      return couple_ratio_on_search(law, draft.laws[step], drafted, key);
  }
  throw std::logic_error("TokenRule: unknown rule");
}

Token TokenRule::draw(const TokenLaw& target, const RngKey& key) const {
  if (const auto* decided = std::get_if<PointMass>(&target)) return decided->token;
  const Categorical& law = std::get<Categorical>(target);
  if (rule_ == Rule::kSharedNoise) return sample_shared_noise(law, key).token;
  return law.sample(key.uniform(Purpose::kTarget));
}

}  // namespace forerun
