#include "forerun/engine/token_image_runner.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "forerun/base/interrupted.h"
#include "forerun/models/mar/mar_tokens.h"

namespace forerun {
namespace {

// A plain image drafts nothing.
struct NoTokenDrafter {
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples) const {
    return std::vector<ChainDraft>(samples.size());
  }
  void observe(std::span<ChainSample* const>, const std::vector<ChainDraft>&, const VerifiedChains&,
               std::span<const Outcome>) const {}
};

Timings shared(const Timings& seconds, double images) {
  return {.drafter = seconds.drafter / images,
          .target = seconds.target / images,
          .rest = seconds.rest / images};
}

}  // namespace

TokenImageRunner::TokenImageRunner(const TokenImageSetting& setting, Observer observer)
    : setting_(setting),
      rule_(setting.rule),
      target_(setting.target, setting.self),
      observer_(std::move(observer)) {
  if (setting_.self && setting_.rule != Rule::kStepwise) {
    throw std::invalid_argument(fmt::format(
        "rule {}: a model that drafts for itself couples by stepwise", name_of(setting_.rule)));
  }
  std::unique_ptr<TokenDrafter> drafter;
  if (setting_.self) {
    drafter = std::make_unique<SelfTokenDrafter>(target_.model());
  } else if (setting_.draft) {
    MarChains::Setting draft = *setting_.draft;
    if (rule_.exact()) draft.sigmas = target_.model().setting().sigmas;
    drafter = std::make_unique<ModelTokenDrafter>(std::move(draft), !rule_.exact());
  }
  if (drafter && setting_.max_draft > 0) {
    // The published code has one number of drafts; what is kept is no beginning of them.
    const bool adaptive = !setting_.fixed_draft && rule_.truncates();
    drafter_.emplace(AnyTokenDrafter(std::move(drafter), setting_.prefill),
                     DraftLength({.adaptive = adaptive}), setting_.max_draft);
  }
}

void TokenImageRunner::submit(RequestId id, const TokenImageRequest& r) {
  if (r.label < 0 || r.label >= config().classes) {
    throw std::invalid_argument(
        fmt::format("class {}: the model has 0 to {}", r.label, config().classes - 1));
  }
  ChainSample sample({.seed = r.seed,
                      .request = r.request,
                      .tokens = static_cast<std::size_t>(config().tokens()),
                      .label = r.label,
                      .id = id,
                      .keep = r.keep_tokens});
  if (r.resample) sample.resample_from(r.resample->token, r.resample->inner, r.resample->seed);
  waiting_.push_back(
      std::make_unique<Image>(Image{.sample = std::move(sample), .previews = r.previews}));
}

void TokenImageRunner::step(std::vector<Event>& events) {
  const c10::InferenceMode no_autograd;
  while (!waiting_.empty() && (setting_.max_active == 0 || active_.size() < setting_.max_active)) {
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (active_.empty()) return;
  std::vector<ChainSample*> samples;
  for (const auto& image : active_) samples.push_back(&image->sample);
  const auto observe = [&](const Round& round) {
    // Most of what a verified token costs is its chain under the target: that is the target's time.
    const Timings seconds{.drafter = round.seconds.drafter,
                          .target = round.seconds.target + round.seconds.rest};
    const Timings share = shared(seconds, static_cast<double>(active_.size()));
    for (std::size_t i = 0; i < active_.size(); ++i) {
      active_[i]->statistics.add({&round.outcomes[i], 1}, share);
    }
    if (observer_) observer_(round);
    if (drafter_ && rule_.truncates()) drafter_->learn(round, seconds);
  };
  const std::span<ChainSample* const> all(samples);
  try {
    if (drafter_) {
      speculate_round<ChainSample>(all, target_, *drafter_, rule_, observe);
    } else {
      NoTokenDrafter none;
      speculate_round<ChainSample>(all, target_, none, rule_, observe);
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {  // images share their passes: nobody can tell whose it was
    for (const auto& image : active_) {
      drop(image->sample.id());
      events.emplace_back(Failed{image->sample.id(), e.what()});
    }
    active_.clear();
    return;
  }
  for (const auto& image : active_) {
    const std::size_t made = image->sample.step();
    if (image->sample.done()) {
      finish(*image, events);
    } else if (image->previews > 0 && made >= image->due) {
      image->due = made + std::max<std::size_t>(image->sample.steps() / image->previews, 1);
      events.emplace_back(ImagePreview{image->sample.id(), made, pixels(image->sample)});
    }
  }
  std::erase_if(active_, [](const auto& image) { return image->sample.done(); });
}

std::vector<float> TokenImageRunner::pixels(const ChainSample& sample) const {
  std::vector<float> tokens;
  for (const Latent& token : sample.values()) {
    tokens.insert(tokens.end(), token.begin(), token.end());
  }
  return mar_image(config(), tokens);
}

void TokenImageRunner::finish(Image& image, std::vector<Event>& events) const {
  events.emplace_back(ImageFinished{.id = image.sample.id(),
                                    .steps = image.sample.step(),
                                    .complete = image.sample.done(),
                                    .values = pixels(image.sample),
                                    .statistics = std::move(image.statistics)});
}

void TokenImageRunner::drop(SequenceId id) {
  target_.forget(id);
  if (drafter_) drafter_->forget(id);
}

bool TokenImageRunner::cancel(RequestId id, std::vector<Event>& events) {
  const auto take = [&](auto& images) {
    const auto at = std::find_if(images.begin(), images.end(),
                                 [&](const auto& i) { return i->sample.id() == id; });
    if (at == images.end()) return false;
    finish(**at, events);
    drop(id);
    images.erase(at);
    return true;
  };
  return take(active_) || take(waiting_);
}

std::vector<const ChainSample*> TokenImageRunner::samples() const {
  std::vector<const ChainSample*> out;
  for (const auto& image : active_) out.push_back(&image->sample);
  return out;
}

std::optional<DraftLengthReport> TokenImageRunner::draft_length() const {
  if (!drafter_) return std::nullopt;
  return drafter_->control().report();
}

}  // namespace forerun
