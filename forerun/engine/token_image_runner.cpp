#include "forerun/engine/token_image_runner.h"

#include <memory>
#include <utility>

#include "forerun/models/mar/mar_tokens.h"

namespace forerun {

TokenImageRunner::TokenImageRunner(const TokenImageSetting& setting, Observer observer)
    : SampleRunner(setting.max_active, std::move(observer)),
      setting_(setting),
      rule_(setting.rule),
      target_(setting.target, setting.self) {
  if (setting_.self && setting_.rule != Rule::kStepwise) {
    throw std::invalid_argument(fmt::format(
        "rule {}: a model that drafts for itself couples by stepwise", name_of(setting_.rule)));
  }
  if (setting_.target.masked && (setting_.self || setting_.draft)) {
    throw std::invalid_argument("a model of the masked form takes no drafter");
  }
  std::unique_ptr<TokenDrafter> drafter;
  if (setting_.self) {
    drafter = std::make_unique<SelfTokenDrafter>(target_.model());
  } else if (setting_.draft) {
    MarChains::Setting draft = *setting_.draft;
    if (exact()) draft.sigmas = target_.model().setting().sigmas;
    drafter = std::make_unique<ModelTokenDrafter>(std::move(draft), !exact());
  }
  if (drafter && setting_.max_draft > 0) {
    // The published code has one number of drafts; what is kept is no beginning of them.
    const bool adaptive = !setting_.fixed_draft && rule_.truncates();
    drafter_.emplace(AnyTokenDrafter(std::move(drafter), setting_.prefill),
                     DraftLength({.adaptive = adaptive}), setting_.max_draft);
  }
}

ChainSample TokenImageRunner::sample_of(RequestId id, const ImageRequest& r) const {
  ChainSample sample({.seed = r.seed,
                      .request = r.request,
                      .tokens = outputs(),
                      .label = r.label,
                      .id = id,
                      .keep = r.keep});
  if (r.resample) {
    const auto inner = static_cast<std::size_t>(setting_.target.head->transitions());
    sample.resample_from(r.resample->step / inner, r.resample->step % inner, r.resample->seed);
  }
  return sample;
}

void TokenImageRunner::run(std::span<ChainSample* const> samples, const Observer& observe) {
  if (setting_.target.masked) {
    MaskedSteps steps(target_.model());
    return speculate_round<ChainSample>(samples, target_, steps, rule_, observe);
  }
  speculate(samples, target_, drafter_, rule_, observe);
}

std::vector<Outcome> TokenImageRunner::outcomes(const Round& round) const {
  std::vector<Outcome> out = SampleRunner::outcomes(round);
  if (!setting_.target.masked) return out;
  for (Outcome& o : out) o = {.emitted = o.emitted};  // its guesses are no drafts
  return out;
}

Timings TokenImageRunner::seconds(const Round& round) const {
  return {.drafter = round.seconds.drafter, .target = round.seconds.target + round.seconds.rest};
}

void TokenImageRunner::learn(const Round& round) {
  if (drafter_ && rule_.truncates()) drafter_->learn(round, seconds(round));
}

void TokenImageRunner::preview(Image& image, std::size_t, const Round&,
                               std::vector<Event>& events) const {
  const std::size_t made = image.sample.step();
  if (image.sample.done() || !due(image, made, false)) return;
  events.emplace_back(ImagePreview{image.sample.id(), made, values(image.sample)});
}

std::vector<float> TokenImageRunner::values(const ChainSample& sample) const {
  std::vector<float> tokens;
  for (const Latent& token : sample.values()) {
    tokens.insert(tokens.end(), token.begin(), token.end());
  }
  return mar_image(target_.model().config_of(sample), tokens);
}

void TokenImageRunner::forget(SequenceId id) {
  target_.forget(id);
  if (drafter_) drafter_->forget(id);
}

std::optional<DraftLengthReport> TokenImageRunner::draft_length() const {
  if (!drafter_) return std::nullopt;
  return drafter_->control().report();
}

}  // namespace forerun
