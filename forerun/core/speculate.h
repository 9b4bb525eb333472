#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/draws.h"

namespace forerun {

/// Where the seconds of one round, or of a run, went.
struct Timings {
  double drafter = 0.0;
  double target = 0.0;
  double rest = 0.0;  ///< couplings, bookkeeping, observers

  double total() const noexcept { return drafter + target + rest; }
};

/// What one lane got out of one round.
struct Outcome {
  std::uint32_t drafted = 0;   ///< drafts proposed
  std::uint32_t examined = 0;  ///< drafts the rule looked at: none after the first rejection
  std::uint32_t accepted = 0;  ///< drafts kept
  std::uint32_t emitted = 0;   ///< outputs: accepted drafts, and the corrected or bonus one
};

/// What observers see of a round. Everything but the timings is a view, gone after the call.
template <class Lane, class Draft, class Verified>
struct Round {
  std::span<Lane* const> lanes;
  std::span<const Draft> drafts;
  const Verified& verified;
  std::span<const Outcome> outcomes;
  Timings seconds;
};

/// One sequence or image being generated. `draws()` is the randomness of its next output,
/// `push` appends an output and says whether the lane goes on.
template <class L>
concept LaneLike = requires(L& lane, const typename L::Value& value) {
  { lane.draws() } -> std::same_as<Draws>;
  { lane.push(value) } -> std::same_as<bool>;
  { lane.done() } -> std::convertible_to<bool>;
  lane.next_round();
};

/// One round: draft, one target pass over it, one coupling per drafted step.
///
/// Drafter  `propose(lanes) -> vector<Draft>`, one a lane, `Draft::size()` steps each (0 is fine);
///          `observe(lanes, drafts, verified, outcomes)` is handed what the verifying pass
///          produced.
/// Target   `verify(lanes, drafts) -> Verified`: `verified.at(lane, step)` is the conditional of
/// that drafted step,
///          `step == draft.size()` the one after; `keep(lanes, drafts, outcomes)` drops the state
///          of what was rejected.
/// Rule     `couple(conditional, draft, step, draws) -> Coupled`, `draw(conditional, draws) ->
/// Value`.
///
/// Source: Leviathan et al. 2023, arXiv:2211.17192, Algorithm 1, for any law with a coupling.
template <LaneLike Lane, class Target, class Drafter, class Rule, class... Observers>
void speculate_round(std::span<Lane* const> lanes, Target& target, Drafter& drafter,
                     const Rule& rule, Observers&... observers) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const auto start = Clock::now();
  const auto drafts = drafter.propose(lanes);
  const auto drafted = Clock::now();
  const auto verified = target.verify(lanes, drafts);
  const auto scored = Clock::now();

  std::vector<Outcome> outcomes(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    Lane& lane = *lanes[i];
    Outcome& out = outcomes[i];
    out.drafted = static_cast<std::uint32_t>(drafts[i].size());
    for (bool go_on = true; go_on;) {
      const Draws draws = lane.draws();
      const auto& conditional = verified.at(i, out.examined);
      if (out.examined == out.drafted) {
        lane.push(rule.draw(conditional, draws));
        go_on = false;
      } else {
        const auto coupled = rule.couple(conditional, drafts[i], out.examined, draws);
        ++out.examined;
        out.accepted += coupled.accepted ? 1 : 0;
        go_on = lane.push(coupled.value) && coupled.accepted;
      }
      ++out.emitted;
    }
    lane.next_round();
  }
  const auto coupled = Clock::now();
  target.keep(lanes, drafts, outcomes);
  const auto kept = Clock::now();
  drafter.observe(lanes, drafts, verified, outcomes);
  const auto end = Clock::now();

  const Round<Lane, typename std::decay_t<decltype(drafts)>::value_type,
              std::decay_t<decltype(verified)>>
      round{lanes,
            drafts,
            verified,
            outcomes,
            {.drafter = since(start, drafted) + since(kept, end),
             .target = since(drafted, scored) + since(coupled, kept),
             .rest = since(scored, coupled)}};
  (observers(round), ...);
}

/// Rounds over the lanes that are not done, until all are or `go_on()` is false (asked between
/// rounds).
/// @param width  lanes of a round at most: the first that are not done, so that one that ends makes
/// room for the next
/// @throws whatever target, drafter or rule throw; the outputs pushed so far stay in the lanes
template <LaneLike Lane, class Target, class Drafter, class Rule, class GoOn, class... Observers>
void speculate_some(std::span<Lane> lanes, std::size_t width, Target& target, Drafter& drafter,
                    const Rule& rule, GoOn&& go_on, Observers&... observers) {
  std::vector<Lane*> active;
  while (go_on()) {
    active.clear();
    for (Lane& lane : lanes) {
      if (active.size() == width) break;
      if (!lane.done()) active.push_back(&lane);
    }
    if (active.empty()) return;
    speculate_round<Lane>(std::span<Lane* const>(active), target, drafter, rule, observers...);
  }
}

/// The same with all lanes at once.
template <LaneLike Lane, class Target, class Drafter, class Rule, class GoOn, class... Observers>
void speculate(std::span<Lane> lanes, Target& target, Drafter& drafter, const Rule& rule,
               GoOn&& go_on, Observers&... observers) {
  speculate_some(lanes, lanes.size(), target, drafter, rule, std::forward<GoOn>(go_on),
                 observers...);
}

}  // namespace forerun
