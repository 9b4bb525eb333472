#include "forerun/methods/diffusion/latent_drafter.h"

#include <ATen/ATen.h>

#include <utility>

#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

// The eighth of sampling that a sample is in.
std::size_t confidence_bin_of(const LatentSample& sample) {
  return sample.step() * kConfidenceBins / sample.steps();
}

}  // namespace

// The noise of the transition, whatever the round: see LatentSample.
void LatentDrafter::add(Drafting& d, Latent mean) const {
  const std::size_t step = d.sample->step() + d.draft->size();
  const double sigma = target_->schedule().step(static_cast<std::int64_t>(step)).sigma;
  d.draft->values.push_back(d.sample->key_at(step).draw({mean, sigma}));
  d.memory.mean = mean;
  d.draft->means.push_back(std::move(mean));
}

// The verifying pass will give the same first transition: this draft is always kept.
void LatentDrafter::begin_with_a_pass(std::vector<Drafting>& drafting) const {
  LatentRows rows;
  for (const Drafting& d : drafting) rows.add(*d.sample, d.sample->state(), d.sample->step());
  if (rows.size() == 0) return;
  LatentScores scores = target_->score(rows);
  for (std::size_t i = 0; i < drafting.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    predictor_->anchor(drafting[i].memory, drafting[i].sample->step(), drafting[i].sample->state(),
                       scores.output.noise[row], scores.output.feature[row]);
    if (reuses_) drafting[i].predictions->emplace_back();  // the target's own, never discarded
    add(drafting[i], std::move(scores.means[i]));
    drafting[i].draft->given = 1;
  }
}

// Drafts one transition of every sample.
void LatentDrafter::predict(std::vector<Drafting*>& drafting) const {
  LatentRows rows;
  std::vector<LatentMemory*> memories;
  for (Drafting* d : drafting) {
    // The memory of that time, except for the noise of the state, which is the row's own.
    if (const Reused* r = d->reused()) {
      Latent drawn_with = std::move(d->memory.mean);
      d->memory = r->prediction.memory;
      d->memory.mean = std::move(drawn_with);
    }
    rows.add(*d->sample, d->state(), d->sample->step() + d->draft->size());
    if (reuses_) d->predictions->push_back({d->memory, {}});
    memories.push_back(&d->memory);
  }
  std::vector<Latent> means = predictor_->means(rows, memories);
  for (std::size_t i = 0; i < drafting.size(); ++i) {
    Drafting& d = *drafting[i];
    if (reuses_) d.predictions->back().mean = means[i];
    if (const Reused* r = d.reused()) {
      for (std::size_t j = 0; j < means[i].size(); ++j) {
        means[i][j] += r->mean[j] - r->prediction.mean[j];
      }
      if (r == &d.own->reused.back()) d.memory = d.own->after_last;
    }
    add(d, std::move(means[i]));
  }
}

std::vector<SequencePlan> LatentDrafter::plan(std::span<LatentSample* const> samples,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const LatentSample& sample = *samples[i];
    // A sample's first drafts start from its first pass.
    const bool has_memory = calls_ == TargetCalls::kTwo || samples_.contains(sample.id());
    plans.push_back({.id = sample.id(),
                     .limit = has_memory ? most[i] : 0,
                     .confidence_bin = confidence_bin_of(sample)});
  }
  return plans;
}

std::vector<LatentDraft> LatentDrafter::propose(std::span<LatentSample* const> samples,
                                                std::span<const std::size_t> lengths) {
  std::vector<LatentDraft> drafts(samples.size());
  std::vector<Drafting> drafting;
  before_.clear();
  predictions_.assign(samples.size(), {});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const LatentSample& sample = *samples[i];
    before_.push_back(sample.state());
    if (lengths[i] == 0) continue;
    const auto found = samples_.find(sample.id());
    const SampleMemory* own = found != samples_.end() ? &found->second : nullptr;
    drafting.push_back({&sample, &drafts[i], own != nullptr ? own->memory : LatentMemory{},
                        lengths[i], own, &predictions_[i]});
  }
  if (calls_ == TargetCalls::kTwo) begin_with_a_pass(drafting);
  for (;;) {
    std::vector<Drafting*> unfinished;
    for (Drafting& d : drafting) {
      if (d.draft->size() < d.most) unfinished.push_back(&d);
    }
    if (unfinished.empty()) return drafts;
    predict(unfinished);
  }
}

void LatentDrafter::anchor(LatentMemory& memory, const Passed& p, std::size_t row) const {
  const std::span<const float> mean = p.verified.at(p.sample, row).mean;
  memory.mean.assign(mean.begin(), mean.end());
  predictor_->anchor(memory, p.first + row, p.state(row), p.verified.noise(p.sample, row),
                     p.verified.feature(p.sample, row));
}

// Keeps the output for the drafts after the newest output, which came from row `newest`; false if
// there are none. The transition from the last of them was not predicted yet.
bool LatentDrafter::reuse(const Passed& p, std::size_t newest, SampleMemory& own) const {
  own.reused.clear();
  const std::size_t last = p.draft.size();
  if (!reuses_ || newest == last) return false;
  for (std::size_t row = newest + 1; row <= last; ++row) {
    const std::span<const float> mean = p.verified.at(p.sample, row).mean;
    Prediction prediction = row < last ? predictions_[p.sample][row] : Prediction{};
    own.reused.push_back({std::move(prediction), Latent(mean.begin(), mean.end())});
  }
  LatentMemory& memory = own.reused.back().prediction.memory;
  anchor(memory, p, last - 1);
  memory.mean = p.draft.means[last - 1];  // that state was drawn from the draft's Gaussian
  own.after_last = memory;
  return true;
}

void LatentDrafter::observe(std::span<LatentSample* const> samples,
                            std::span<const LatentDraft> drafts,
                            const DitTarget::Verified& verified,
                            std::span<const Outcome> outcomes) {
  LatentRows rows;
  std::vector<LatentMemory*> memories;
  std::vector<std::pair<SampleMemory*, Passed>> reusing;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const LatentSample& sample = *samples[i];
    if (sample.done()) {
      samples_.erase(sample.id());
      continue;
    }
    SampleMemory& own = samples_[sample.id()];
    const Passed passed{verified, i, drafts[i], before_[i], sample.step() - outcomes[i].emitted};
    const std::size_t newest = outcomes[i].emitted - 1, last = drafts[i].size();
    if (calls_ == TargetCalls::kOne) anchor(own.memory, passed, newest);
    if (!reuse(passed, newest, own)) continue;
    reusing.emplace_back(&own, passed);
    memories.push_back(&own.after_last);
    rows.add(sample, passed.state(last), passed.first + last);
  }
  if (reusing.empty()) return;
  std::vector<Latent> means = predictor_->means(rows, memories);
  for (std::size_t j = 0; j < reusing.size(); ++j) {
    auto& [own, passed] = reusing[j];
    own->reused.back().prediction.mean = std::move(means[j]);
    anchor(own->after_last, passed, passed.draft.size());
  }
}

AdaptiveLatentDrafter adaptive(LatentDrafter drafter, TargetCalls calls, std::size_t slots,
                               bool adaptive) {
  // The last slot is drawn from the target itself.
  const std::size_t drafts = slots - 1 + (calls == TargetCalls::kTwo ? 1 : 0);
  return {std::move(drafter), DraftLength({.adaptive = adaptive}), drafts};
}

}  // namespace forerun
