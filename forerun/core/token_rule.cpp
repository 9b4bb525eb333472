#include "forerun/core/token_rule.h"

#include <array>
#include <stdexcept>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr std::array<std::string_view, 10> kNames = {
    "maximal", "block",   "match",           "shared-noise", "stepwise",
    "path",    "typical", "ratio-on-search", "paper",        "code"};

const Categorical& law_of(const TokenDraft& draft, std::size_t step) {
  if (step < draft.laws.size()) return draft.laws[step];
  throw std::invalid_argument(
      "maximal and block need the law every sampled token was drawn from: fill TokenDraft::laws, "
      "or mark the draft kChosen");
}

}  // namespace

std::string_view name_of(Rule rule) noexcept { return kNames[static_cast<std::size_t>(rule)]; }

std::optional<Rule> rule_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Rule>(i);
  }
  return std::nullopt;
}

std::optional<Block> TokenRule::decide(
    const TokenDraft& draft, const std::function<const TokenLaw&(std::size_t)>& conditional,
    const std::function<RngKey(std::size_t)>& key) const {
  if (rule_ != Rule::kBlock || draft.origin != Origin::kSampled || draft.size() == 0 ||
      std::holds_alternative<PointMass>(conditional(0))) {
    return std::nullopt;
  }
  const auto target = [&](std::size_t step) -> const Categorical& {
    return std::get<Categorical>(conditional(step));
  };
  const auto log_weights = block_log_weights(draft.size(), [&](std::size_t step) {
    return log_ratio(target(step), law_of(draft, step), draft.tokens[step]);
  });
  return decide_block(
      draft.size(), log_weights,
      [&](std::size_t step) { return key(step).uniform(Purpose::kAccept); },
      [&](std::size_t step, double weight) {
        return residual_mass(target(step), law_of(draft, step), weight);
      });
}

Coupled<Token> TokenRule::couple(const TokenLaw& target, const TokenDraft& draft, std::size_t step,
                                 const RngKey& key, const std::optional<Block>& decided) const {
  if (!decided) return couple(target, draft, step, key);
  if (step < decided->accepted) return {draft.tokens[step], true};
  return {sample_residual(std::get<Categorical>(target), draft.laws[step],
                          key.uniform(Purpose::kResidual), decided->weight),
          false};
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
    case Rule::kBlock:
      if (draft.origin == Origin::kSampled) {
        return forerun::couple(law, law_of(draft, step), drafted, key);
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
    case Rule::kStepwise:
    case Rule::kPath:
    case Rule::kPaper:
    case Rule::kCode:
      break;
  }
  throw std::invalid_argument(std::string("rule ") + std::string(name_of(rule_)) +
                              " couples tokens of images; texts have maximal, block, match and "
                              "shared-noise");
}

Token TokenRule::draw(const TokenLaw& target, const RngKey& key) const {
  if (const auto* decided = std::get_if<PointMass>(&target)) return decided->token;
  const Categorical& law = std::get<Categorical>(target);
  if (rule_ == Rule::kSharedNoise) return sample_shared_noise(law, key).token;
  return law.sample(key.uniform(Purpose::kTarget));
}

}  // namespace forerun
