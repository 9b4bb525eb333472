#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/lane.h"
#include "forerun/core/rule.h"
#include "forerun/core/speculate.h"
#include "forerun/methods/draft_budget.h"
#include "forerun/methods/prefilled.h"

namespace forerun {

/// A drafter with somebody who decides how far it runs ahead. To the loop it is a drafter like any
/// other; `learn` is told what each round cost.
///
/// Lane, Draft  what the loop draws: tokens, or latents.
/// Drafter  `propose(lanes, lengths)`: just so many drafts a lane, each graded; `observe` as in
///          speculate.h. It may have `foresee(lanes, most, control)`: what it could draft for each
///          lane, which is then planned; and `found(lane)`, the draft it found for a lane of the
///          round, used or not, whose tokens stay as they are until the next `foresee`; and
///          `prefilled()`, whose seconds are not what a draft costs.
template <class Drafter, class Lane = TokenLane, class Draft = TokenDraft>
class Paced {
 public:
  Paced(Drafter drafter, DraftLength control, std::size_t max_draft)
      : drafter_(std::move(drafter)), control_(std::move(control)), max_draft_(max_draft) {}

  std::vector<Draft> propose(std::span<Lane* const> lanes) {
    lengths_.assign(lanes.size(), 0);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lengths_[i] = draft_budget(*lanes[i], max_draft_);
    }
    if constexpr (requires { drafter_.foresee(lanes, lengths_, control_); }) {
      plans_ = drafter_.foresee(lanes, lengths_, control_);
    } else {
      plans_.clear();
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        plans_.push_back({.request = lanes[i]->request(), .limit = lengths_[i]});
      }
    }
    const auto planned = control_.plan(plans_);
    std::copy(planned.begin(), planned.end(), lengths_.begin());
    return drafter_.propose(lanes, lengths_);
  }

  template <class Verified>
  void observe(std::span<Lane* const> lanes, std::span<const Draft> drafts, const Verified& seen,
               std::span<const Outcome> outcomes) {
    drafter_.observe(lanes, drafts, seen, outcomes);
  }

  /// @param seconds  of the round, without the target's prefill; the drafter's is left out here
  template <class Round>
  void learn(const Round& round, const Timings& seconds) {
    seen_.clear();
    PassSeen pass{.rows = round.lanes.size(),
                  .target_seconds = seconds.target,
                  .drafter_seconds = seconds.drafter,
                  .rest_seconds = seconds.rest};
    if constexpr (requires { drafter_.prefilled(); }) {
      const Prefilled now = drafter_.prefilled();
      pass.read = now.tokens - prefilled_.tokens;
      pass.read_seconds = now.seconds - prefilled_.seconds;
      pass.drafter_seconds -= pass.read_seconds;
      prefilled_ = now;
    }
    for (std::size_t i = 0; i < round.lanes.size(); ++i) {
      const Lane& lane = *round.lanes[i];
      const Outcome& out = round.outcomes[i];
      LaneSeen seen{.request = lane.request(),
                    .grade = plans_[i].grade,
                    .found = plans_[i].found,
                    .drafted = out.drafted,
                    .examined = out.examined,
                    .accepted = out.accepted,
                    .done = lane.done()};
      if constexpr (requires { drafter_.found(i); }) {
        seen.outputs = lane.tokens().last(out.emitted);
        seen.draft = drafter_.found(i).tokens;
        seen.draft_grade = drafter_.found(i).grade;
        seen.draft_origin = drafter_.found(i).origin;
      }
      seen_.push_back(seen);
      pass.rows += out.drafted;
      if (!plans_[i].found) pass.drafted += out.drafted;
    }
    control_.observe(seen_, pass);
  }

  void forget(std::uint32_t request) {
    if constexpr (requires { drafter_.forget(request); }) drafter_.forget(request);
    control_.forget(request);
  }
  const DraftLength& control() const noexcept { return control_; }

 private:
  Drafter drafter_;
  DraftLength control_;
  std::size_t max_draft_;
  Prefilled prefilled_;
  std::vector<std::size_t> lengths_;
  std::vector<LanePlan> plans_;
  std::vector<LaneSeen> seen_;
};

}  // namespace forerun
