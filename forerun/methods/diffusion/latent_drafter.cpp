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
    if (recalls_) drafting[i].guesses->emplace_back();  // said, not guessed, and never discarded
    add(drafting[i], std::move(scores.means[i]));
    drafting[i].draft->given = 1;
  }
}

// Drafts one transition of every lane.
void LatentDrafter::guess(std::vector<Drafting*>& drafting) const {
  LatentRows rows;
  std::vector<LatentMemory*> memories;
  for (Drafting* d : drafting) {
    // What was remembered then, but for the noise of the state that is read: that is its own.
    if (const Recalled* r = d->recalled()) {
      Latent drawn_with = std::move(d->memory.mean);
      d->memory = r->guess.memory;
      d->memory.mean = std::move(drawn_with);
    }
    rows.add(*d->lane, d->state(), d->lane->step() + d->draft->size());
    if (recalls_) d->guesses->push_back({d->memory, {}});
    memories.push_back(&d->memory);
  }
  std::vector<Latent> means = predictor_->means(rows, memories);
  for (std::size_t i = 0; i < drafting.size(); ++i) {
    Drafting& d = *drafting[i];
    if (recalls_) d.guesses->back().mean = means[i];
    if (const Recalled* r = d.recalled()) {
      for (std::size_t j = 0; j < means[i].size(); ++j) {
        means[i][j] += r->mean[j] - r->guess.mean[j];
      }
      if (r == &d.known->recalled.back()) d.memory = d.known->behind;
    }
    add(d, std::move(means[i]));
  }
}

std::vector<LanePlan> LatentDrafter::foresee(std::span<LatentLane* const> lanes,
                                             std::span<const std::size_t> most,
                                             const DraftLength&) const {
  std::vector<LanePlan> plans;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LatentLane& lane = *lanes[i];
    // What a lane's first drafts begin with comes out of its first pass.
    const bool known = calls_ == TargetCalls::kTwo || lanes_.contains(lane.request());
    plans.push_back(
        {.request = lane.request(), .limit = known ? most[i] : 0, .grade = grade_of(lane)});
  }
  return plans;
}

std::vector<LatentDraft> LatentDrafter::propose(std::span<LatentLane* const> lanes,
                                                std::span<const std::size_t> lengths) {
  std::vector<LatentDraft> drafts(lanes.size());
  std::vector<Drafting> drafting;
  before_.clear();
  guesses_.assign(lanes.size(), {});
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LatentLane& lane = *lanes[i];
    before_.push_back(lane.state());
    if (lengths[i] == 0) continue;
    const auto found = lanes_.find(lane.request());
    const Known* known = found != lanes_.end() ? &found->second : nullptr;
    drafting.push_back({&lane, &drafts[i], known != nullptr ? known->memory : LatentMemory{},
                        lengths[i], known, &guesses_[i]});
  }
  if (calls_ == TargetCalls::kTwo) begin_with_a_pass(drafting);
  for (;;) {
    std::vector<Drafting*> going_on;
    for (Drafting& d : drafting) {
      if (d.draft->size() < d.most) going_on.push_back(&d);
    }
    if (going_on.empty()) return drafts;
    guess(going_on);
  }
}

void LatentDrafter::anchor(LatentMemory& memory, const Passed& p, std::size_t row) const {
  const std::span<const float> mean = p.verified.at(p.lane, row).mean;
  memory.mean.assign(mean.begin(), mean.end());
  predictor_->anchor(memory, p.first + row, p.state(row), p.verified.noise(p.lane, row),
                     p.verified.feature(p.lane, row));
}

// Keeps what was said of the drafts behind the newest output, which came of row `newest`; false if
// there are none. The transition from the last of them was not guessed yet.
bool LatentDrafter::recall(const Passed& p, std::size_t newest, Known& known) const {
  known.recalled.clear();
  const std::size_t last = p.draft.size();
  if (!recalls_ || newest == last) return false;
  for (std::size_t row = newest + 1; row <= last; ++row) {
    const std::span<const float> mean = p.verified.at(p.lane, row).mean;
    Guess guess = row < last ? guesses_[p.lane][row] : Guess{};
    known.recalled.push_back({std::move(guess), Latent(mean.begin(), mean.end())});
  }
  LatentMemory& memory = known.recalled.back().guess.memory;
  anchor(memory, p, last - 1);
  memory.mean = p.draft.means[last - 1];  // that state was drawn from the draft's Gaussian
  known.behind = memory;
  return true;
}

void LatentDrafter::observe(std::span<LatentLane* const> lanes, std::span<const LatentDraft> drafts,
                            const DitTarget::Verified& verified,
                            std::span<const Outcome> outcomes) {
  LatentRows rows;
  std::vector<LatentMemory*> memories;
  std::vector<std::pair<Known*, Passed>> recalling;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LatentLane& lane = *lanes[i];
    if (lane.done()) {
      lanes_.erase(lane.request());
      continue;
    }
    Known& known = lanes_[lane.request()];
    const Passed passed{verified, i, drafts[i], before_[i], lane.step() - outcomes[i].emitted};
    const std::size_t newest = outcomes[i].emitted - 1, last = drafts[i].size();
    if (calls_ == TargetCalls::kOne) anchor(known.memory, passed, newest);
    if (!recall(passed, newest, known)) continue;
    recalling.emplace_back(&known, passed);
    memories.push_back(&known.behind);
    rows.add(lane, passed.state(last), passed.first + last);
  }
  if (recalling.empty()) return;
  std::vector<Latent> means = predictor_->means(rows, memories);
  for (std::size_t j = 0; j < recalling.size(); ++j) {
    auto& [known, passed] = recalling[j];
    known->recalled.back().guess.mean = std::move(means[j]);
    anchor(known->behind, passed, passed.draft.size());
  }
}

PacedLatentDrafter paced(LatentDrafter drafter, TargetCalls calls, std::size_t slots,
                         bool adaptive) {
  // The last slot is drawn from the target itself.
  const std::size_t drafts = slots - 1 + (calls == TargetCalls::kTwo ? 1 : 0);
  return {std::move(drafter), DraftLength({.adaptive = adaptive}), drafts};
}

}  // namespace forerun
