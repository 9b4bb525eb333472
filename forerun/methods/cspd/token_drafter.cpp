#include "forerun/methods/cspd/token_drafter.h"

#include <algorithm>
#include <utility>

namespace forerun {

std::vector<ChainDraft> ModelTokenDrafter::propose(std::span<ChainSample* const> samples,
                                                   std::span<const std::size_t> lengths) {
  model_.forget_laws();
  std::vector<ChainDraft> out(samples.size());
  const std::size_t most = lengths.empty() ? 0 : std::ranges::max(lengths);
  for (std::size_t j = 0; j < most; ++j) {
    std::vector<MarChains::Reading> readings;
    std::vector<std::size_t> drafting;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (j >= lengths[i]) continue;
      drafting.push_back(i);
      MarChains::Reading& r = readings.emplace_back();
      r.sample = samples[i];
      for (const ChainPath& path : out[i].paths) r.more.push_back(&path.value());
    }
    const auto laws = model_.read(readings);
    std::vector<FreeChain> chains;
    for (std::size_t k = 0; k < drafting.size(); ++k) {
      const ChainSample& s = *samples[drafting[k]];
      chains.push_back({laws[k].back(), s.key_at(s.step() + j), Purpose::kTarget});
    }
    std::vector<ChainPath> paths = draw_chains(chains);
    for (std::size_t k = 0; k < drafting.size(); ++k) {
      if (noiseless_end_) paths[k].states.back() = paths[k].means.back();
      out[drafting[k]].paths.push_back(std::move(paths[k]));
      out[drafting[k]].laws.push_back(chains[k].law);
    }
  }
  return out;
}

void ModelTokenDrafter::observe(std::span<ChainSample* const> samples,
                                std::span<const ChainDraft> drafts, const VerifiedChains&,
                                std::span<const Outcome> outcomes) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]->done()) {
      model_.forget(samples[i]->id());
    } else if (drafts[i].size() > 0) {
      model_.keep(*samples[i], read_rightly(*samples[i], drafts[i], outcomes[i]));
    }
  }
}

std::vector<ChainDraft> SelfTokenDrafter::propose(std::span<ChainSample* const> samples,
                                                  std::span<const std::size_t> lengths) {
  std::vector<ChainDraft> out(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::vector<Slot>& window = windows_[samples[i]->id()];
    ChainDraft& draft = out[i];
    draft.laws.resize(lengths[i]);  // the pass couples; no rule asks them
    for (std::size_t j = 0; j < lengths[i]; ++j) {
      if (j < window.size()) {
        draft.paths.push_back(window[j].path);
        draft.conditions.push_back(window[j].condition);
        continue;
      }
      // A guess, for the conditions of later slots: the token before. It is never emitted.
      const auto& made = samples[i]->values();
      const Latent* before = j > 0          ? &draft.paths.back().value()
                             : made.empty() ? nullptr
                                            : &made.back();
      draft.paths.push_back(
          {.states = {before != nullptr ? *before : Latent(model_->dim(), 0.0F)}});
      draft.conditions.emplace_back();
    }
  }
  return out;
}

void SelfTokenDrafter::observe(std::span<ChainSample* const> samples, std::span<const ChainDraft>,
                               const VerifiedChains& verified, std::span<const Outcome> outcomes) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    windows_.erase(samples[i]->id());
    if (samples[i]->done()) continue;
    std::vector<Slot>& window = windows_[samples[i]->id()];
    for (std::size_t j = outcomes[i].emitted; j < verified.coupled[i].size(); ++j) {
      const auto condition = model_->condition(verified.laws[i][j]);
      window.push_back({verified.coupled[i][j].value.path, {condition.begin(), condition.end()}});
    }
  }
}

}  // namespace forerun
