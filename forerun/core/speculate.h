#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/outcome.h"

namespace forerun {

struct RngKey;

/// An observer's view of a round. All but the timings are views, valid during the call only.
template <class Sequence, class Draft, class Verified>
struct Round {
  std::span<Sequence* const> sequences;
  std::span<const Draft> drafts;
  const Verified& verified;
  std::span<const Outcome> outcomes;
  Timings seconds;
};

/// One sequence or image being generated. `key()` is the randomness of its next output,
/// `key_at` that of the output at a position; `push` appends an output and says whether the
/// sequence goes on.
template <class L>
concept SequenceLike = requires(L& sequence, const typename L::Value& value) {
  { sequence.key() } -> std::convertible_to<RngKey>;
  { sequence.key_at(std::size_t{}) } -> std::convertible_to<RngKey>;
  { sequence.push(value) } -> std::same_as<bool>;
  { sequence.done() } -> std::convertible_to<bool>;
  sequence.next_round();
};

/// The coupling of each step of a draft, after the rule's decision over the whole draft if it makes
/// one. Arguments must outlive the result.
template <class Rule, class Draft, class Conditional, class Key>
auto coupling(const Rule& rule, const Draft& draft, const Conditional& conditional,
              const Key& key) {
  if constexpr (requires { rule.decide(draft, conditional, key); }) {
    return [&, decided = rule.decide(draft, conditional, key)](std::size_t step) {
      return rule.couple(conditional(step), draft, step, key(step), decided);
    };
  } else {
    return [&](std::size_t step) { return rule.couple(conditional(step), draft, step, key(step)); };
  }
}

/// The walk over a tree of deterministic drafts: every output is the target's own draw, and goes on
/// at the draft that equals it.
template <SequenceLike Sequence, class Verified, class Draft, class Rule>
Outcome resolve_tree(Sequence& sequence, std::size_t index, const Verified& verified,
                     const Draft& draft, const Rule& rule) {
  Outcome out{.drafted = static_cast<std::uint32_t>(draft.size())};
  std::int32_t at = -1;
  for (bool more = true; more;) {
    const auto output =
        rule.draw(verified.at(index, static_cast<std::size_t>(at) + 1), sequence.key());
    out.examined += draft.continues(at) ? 1 : 0;
    at = draft.following(at, output);
    if (at >= 0) out.path.push_back(at);
    more = sequence.push(output) && at >= 0;
    ++out.emitted;
  }
  out.accepted = static_cast<std::uint32_t>(out.path.size());
  sequence.next_round();
  return out;
}

/// Emits and counts what was decided at a step of a walk: a drafted one, or the one after all
/// drafts.
/// @param truncates  the walk ends at a rejection
/// @return  whether it goes on
template <SequenceLike Sequence, class Coupled>
bool take(Sequence& sequence, Outcome& out, Coupled coupled, bool truncates = true) {
  const bool drafted = out.examined < out.drafted;
  out.examined += drafted ? 1 : 0;
  out.accepted += drafted && coupled.accepted ? 1 : 0;
  ++out.emitted;
  const bool more = sequence.push(std::move(coupled.value)) && drafted;
  return more && (truncates ? coupled.accepted : out.examined < out.drafted);
}

/// Couples the draft of a sequence with its verified conditionals: outputs up to the first
/// rejection, or one more than was drafted. A rule that decides over the whole draft does so first;
/// the walk over the draft's steps then follows its decision. Conditionals are asked for as needed.
/// @param index  of the sequence in `verified`
template <SequenceLike Sequence, class Verified, class Draft, class Rule>
Outcome resolve(Sequence& sequence, std::size_t index, const Verified& verified, const Draft& draft,
                const Rule& rule) {
  if constexpr (requires { draft.tree(); }) {
    if (draft.tree()) return resolve_tree(sequence, index, verified, draft, rule);
  }
  Outcome out{.drafted = static_cast<std::uint32_t>(draft.size())};
  const auto conditional = [&](std::size_t step) -> decltype(auto) {
    return verified.at(index, step);
  };
  const auto key = [&, first = sequence.key().position](std::size_t step) {
    return sequence.key_at(first + step);
  };
  const auto couple = coupling(rule, draft, conditional, key);
  for (bool more = true; more;) {
    const std::size_t step = out.examined;
    if (step < out.drafted) {
      more = take(sequence, out, couple(step));
    } else {
      using Drawn = decltype(couple(step));
      more = take(sequence, out, Drawn{rule.draw(conditional(step), key(step)), false});
    }
  }
  if constexpr (requires { rule.settle(sequence, draft, conditional, out); }) {
    rule.settle(sequence, draft, conditional, out);
  }
  sequence.next_round();
  return out;
}

/// The same for all sequences of a round. Rules decide one sequence after another, except those
/// that couple several at once, because they ask the target again meanwhile: their walks go side by
/// side, and what they ask is asked together.
template <SequenceLike Sequence, class Verified, class Draft, class Rule>
std::vector<Outcome> resolve_all(std::span<Sequence* const> sequences, const Verified& verified,
                                 const std::vector<Draft>& drafts, const Rule& rule) {
  std::vector<Outcome> out;
  if constexpr (requires { typename Rule::Request; }) {
    std::vector<std::size_t> going;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      out.push_back({.drafted = static_cast<std::uint32_t>(drafts[i].size())});
      going.push_back(i);
    }
    while (!going.empty()) {
      std::vector<typename Rule::Request> requests;
      for (const std::size_t i : going) {
        const std::size_t step = out[i].examined;
        const Draft* draft = step < out[i].drafted ? &drafts[i] : nullptr;
        requests.push_back({verified.at(i, step), draft, step, sequences[i]->key()});
      }
      auto coupled = rule.couple_all(requests);
      std::vector<std::size_t> rest;
      for (std::size_t j = 0; j < going.size(); ++j) {
        const std::size_t i = going[j];
        if (take(*sequences[i], out[i], std::move(coupled[j]), rule.truncates())) rest.push_back(i);
      }
      going = std::move(rest);
    }
    for (Sequence* sequence : sequences) sequence->next_round();
  } else {
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      out.push_back(resolve(*sequences[i], i, verified, drafts[i], rule));
    }
  }
  return out;
}

/// One round: draft, one target pass over it, one coupling per drafted step.
///
/// Drafter  `propose(sequences) -> vector<Draft>`, one a sequence, of `Draft::size()` steps, 0 or
///          more; `observe(sequences, drafts, verified, outcomes)` receives the result of the
///          verifying pass.
/// Target   `verify(sequences, drafts) -> Verified`: `verified.at(sequence, step)` is the
///          conditional of that drafted step, `step == draft.size()` the one after;
///          `keep(sequences, drafts, outcomes)` drops the state of rejected steps.
/// Rule     `couple(conditional, draft, step, key) -> Coupled`, `draw(conditional, key) -> Value`.
///          A rule over whole drafts has `decide(draft, conditional(step), key(step)) -> Decided`,
///          and `couple` takes the decision as its last argument. A rule whose decision looks at
///          random numbers that are used again has `settle(sequence, draft, conditional(step),
///          outcome)`. A rule that couples several sequences at once has instead a type `Request`
///          of {conditional, draft or null, step, key}, `couple_all(requests) -> vector<Coupled>`
///          and `truncates()`.
///
/// Source: Leviathan et al. 2023, arXiv:2211.17192, Algorithm 1, for any law with a coupling.
template <SequenceLike Sequence, class Target, class Drafter, class Rule, class... Observers>
void speculate_round(std::span<Sequence* const> sequences, Target& target, Drafter& drafter,
                     const Rule& rule, Observers&... observers) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const auto start = Clock::now();
  const auto drafts = drafter.propose(sequences);
  const auto drafted = Clock::now();
  const auto verified = target.verify(sequences, drafts);
  const auto scored = Clock::now();

  const std::vector<Outcome> outcomes = resolve_all(sequences, verified, drafts, rule);
  const auto coupled = Clock::now();
  target.keep(sequences, drafts, outcomes);
  const auto kept = Clock::now();
  drafter.observe(sequences, drafts, verified, outcomes);
  const auto end = Clock::now();

  const Round<Sequence, typename std::decay_t<decltype(drafts)>::value_type,
              std::decay_t<decltype(verified)>>
      round{sequences,
            drafts,
            verified,
            outcomes,
            {.drafter = since(start, drafted) + since(kept, end),
             .target = since(drafted, scored) + since(coupled, kept),
             .rest = since(scored, coupled)}};
  (observers(round), ...);
}

/// Runs rounds over the sequences that are not done, until all are done or `go_on()`, called
/// between rounds, is false.
/// @throws whatever target, drafter or rule throw; the sequences keep the outputs pushed so far
template <SequenceLike Sequence, class Target, class Drafter, class Rule, class GoOn,
          class... Observers>
void speculate(std::span<Sequence> sequences, Target& target, Drafter& drafter, const Rule& rule,
               GoOn&& go_on, Observers&... observers) {
  std::vector<Sequence*> active;
  while (go_on()) {
    active.clear();
    for (Sequence& sequence : sequences) {
      if (!sequence.done()) active.push_back(&sequence);
    }
    if (active.empty()) return;
    speculate_round<Sequence>(std::span<Sequence* const>(active), target, drafter, rule,
                              observers...);
  }
}

}  // namespace forerun
