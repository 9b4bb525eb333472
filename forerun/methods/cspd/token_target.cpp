#include "forerun/methods/cspd/token_target.h"

#include <algorithm>
#include <utility>

namespace forerun {

std::size_t read_rightly(const ChainSample& sample, const ChainDraft& draft,
                         const Outcome& outcome) {
  const std::size_t first = sample.step() - outcome.emitted;
  std::size_t same = 0;
  while (same < draft.size() && same < outcome.emitted &&
         sample.values()[first + same] == draft.paths[same].value()) {
    ++same;
  }
  return first + same;
}

std::vector<ChainDraft> MaskedSteps::propose(std::span<ChainSample* const> samples) const {
  std::vector<ChainDraft> out;
  for (const ChainSample* sample : samples) {
    const MaskedReader::Step step = model_->setting().masked->step_of(sample->step());
    const std::size_t more = step.end - sample->step() - 1;
    out.push_back({.paths = {more, ChainPath{.states = {Latent(model_->dim(), 0.0F)}, .means = {}}},
                   .laws = std::vector<ChainLaw>(more),
                   .conditions = std::vector<ChainDraft::Condition>(more)});
  }
  return out;
}

VerifiedChains TokenTarget::verify(std::span<ChainSample* const> samples,
                                   const std::vector<ChainDraft>& drafts) {
  model_.forget_laws();
  std::vector<MarChains::Reading> readings;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    MarChains::Reading& r = readings.emplace_back();
    r.sample = samples[i];
    for (const ChainPath& path : drafts[i].paths) r.more.push_back(&path.value());
    r.laws = drafts[i].size() + 1;
  }
  VerifiedChains out{.laws = model_.read(readings)};
  if (!couples_) return out;

  std::vector<ChainTask> tasks;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of the tasks: sample, slot
  for (std::size_t i = 0; i < samples.size(); ++i) {
    out.coupled.emplace_back(out.laws[i].size());
    for (std::size_t j = 0; j < out.laws[i].size(); ++j) {
      const bool drawn = j < drafts[i].size() && !drafts[i].paths[j].means.empty();
      const ChainDraft::Condition* before = drawn ? &drafts[i].conditions[j] : nullptr;
      const std::span<const float> now = model_.condition(out.laws[i][j]);
      // The same condition bit for bit is the same law: the chain is one of it.
      if (before != nullptr && std::equal(now.begin(), now.end(), before->begin(), before->end())) {
        out.coupled[i][j] = {{.path = drafts[i].paths[j]}, true};
        continue;
      }
      ChainTask task{.target = out.laws[i][j], .key = samples[i]->key_at(samples[i]->step() + j)};
      if (drawn) {
        task.draft = &drafts[i].paths[j];
        task.drafted_by = task.target;  // of one model: the standard deviations are the same
      }
      tasks.push_back(task);
      places.emplace_back(i, j);
    }
  }
  auto coupled = couple_stepwise(tasks);
  for (std::size_t k = 0; k < coupled.size(); ++k) {
    // No token of a masked step depends on another of it: the walk goes on after each.
    coupled[k].accepted = coupled[k].accepted || model_.setting().masked != nullptr;
    out.coupled[places[k].first][places[k].second] = std::move(coupled[k]);
  }
  return out;
}

void TokenTarget::keep(std::span<ChainSample* const> samples, const std::vector<ChainDraft>& drafts,
                       std::span<const Outcome> outcomes) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]->done()) {
      model_.forget(samples[i]->id());
    } else {
      model_.keep(*samples[i], read_rightly(*samples[i], drafts[i], outcomes[i]));
    }
  }
}

}  // namespace forerun
