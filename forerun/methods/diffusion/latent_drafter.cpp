#include "forerun/methods/diffusion/latent_drafter.h"

#include <ATen/ATen.h>

#include <utility>

namespace forerun {
namespace {

// The part of sampling that a lane is in.
std::size_t grade_of(const LatentLane& lane) { return lane.step() * kGrades / lane.steps(); }

}  // namespace

// The noise of the lane's position, whatever the round: see LatentLane.
void LatentDrafter::add(Drafting& d, Latent mean) const {
  const std::size_t step = d.lane->step() + d.draft->size();
  const double sigma = target_->schedule().step(static_cast<std::int64_t>(step)).sigma;
  d.draft->values.push_back(Gaussian{mean, sigma}.sample(Purpose::kTarget, d.lane->draws_at(step)));
  d.memory.mean = mean;
  d.draft->means.push_back(std::move(mean));
}

// What the verifying pass will say of the first transition is known before: a draft that is kept.
void LatentDrafter::begin_with_a_pass(std::vector<Drafting>& drafting) const {
  LatentRows rows;
  for (const Drafting& d : drafting) rows.add(*d.lane, d.lane->state(), d.lane->step());
  if (rows.size() == 0) return;
  LatentScores scores = target_->score(rows);
  for (std::size_t i = 0; i < drafting.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    predictor_->anchor(drafting[i].memory, drafting[i].lane->step(), drafting[i].lane->state(),
                       scores.output.noise[row], scores.output.feature[row]);
    add(drafting[i], std::move(scores.means[i]));
  }
}

std::vector<std::size_t> LatentDrafter::foresee(std::span<LatentLane* const> lanes,
                                                std::span<std::size_t> lengths) const {
  std::vector<std::size_t> grades;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LatentLane& lane = *lanes[i];
    // What a lane's first drafts begin with comes out of its first pass.
    if (calls_ == TargetCalls::kOne && !memories_.contains(lane.request())) lengths[i] = 0;
    grades.push_back(grade_of(lane));
  }
  return grades;
}

std::vector<LatentDraft> LatentDrafter::propose(std::span<LatentLane* const> lanes,
                                                std::span<const std::size_t> lengths) {
  std::vector<LatentDraft> drafts(lanes.size());
  std::vector<Drafting> drafting;
  before_.clear();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LatentLane& lane = *lanes[i];
    before_.push_back(lane.state());
    drafts[i].grade = grade_of(lane);
    if (lengths[i] == 0) continue;
    const auto memory = memories_.find(lane.request());
    drafting.push_back({&lane, &drafts[i],
                        memory != memories_.end() ? memory->second : LatentMemory{}, lengths[i]});
  }
  if (calls_ == TargetCalls::kTwo) begin_with_a_pass(drafting);
  for (;;) {
    LatentRows rows;
    std::vector<LatentMemory*> memories;
    std::vector<Drafting*> going_on;
    for (Drafting& d : drafting) {
      if (d.draft->size() >= d.most) continue;
      rows.add(*d.lane, d.state(), d.lane->step() + d.draft->size());
      memories.push_back(&d.memory);
      going_on.push_back(&d);
    }
    if (rows.size() == 0) return drafts;
    std::vector<Latent> means = predictor_->means(rows, memories);
    for (std::size_t i = 0; i < going_on.size(); ++i) add(*going_on[i], std::move(means[i]));
  }
}

void LatentDrafter::observe(std::span<LatentLane* const> lanes, std::span<const LatentDraft> drafts,
                            const DitTarget::Verified& verified,
                            std::span<const Outcome> outcomes) {
  if (calls_ == TargetCalls::kTwo) return;  // each round begins anew
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LatentLane& lane = *lanes[i];
    if (lane.done()) {
      memories_.erase(lane.request());
      continue;
    }
    // The state that the newest output was made from; what lies behind it was discarded.
    const std::size_t last = outcomes[i].emitted - 1;
    const Latent& read = last == 0 ? before_[i] : drafts[i].values[last - 1];
    LatentMemory& memory = memories_[lane.request()];
    const std::span<const float> mean = verified.at(i, last).mean;
    memory.mean.assign(mean.begin(), mean.end());
    predictor_->anchor(memory, lane.step() - 1, read, verified.noise(i, last),
                       verified.feature(i, last));
  }
}

PacedLatentDrafter paced(LatentDrafter drafter, TargetCalls calls, std::size_t slots,
                         bool adaptive) {
  // The last slot is drawn from the target itself.
  const std::size_t drafts = slots - 1 + (calls == TargetCalls::kTwo ? 1 : 0);
  return {std::move(drafter), DraftLength({.adaptive = adaptive}), drafts};
}

}  // namespace forerun
