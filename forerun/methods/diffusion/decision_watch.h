#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "forerun/core/latent.h"

namespace forerun {

/// How one transition was decided.
struct StepDecision {
  std::uint32_t round = 0;  ///< of the sample
  bool drafted = false;
  Latent mean;  ///< the draft's

  /// Bit for bit: means that are not numbers too.
  bool same(const StepDecision& other) const noexcept;
};

/// Remembers how some transitions were decided: the counterfactual test of exactness.
///
/// Noise belongs to its transition and may have been used before, in drafts that were discarded. An
/// output has the target's law if what decides transition k (the round, whether it is drafted, the
/// draft's mean) is a function of the noise and uniforms of earlier transitions. So a run in which
/// those of k and later ones come from another seed (LatentSample::resample_from) must decide k as
/// the first run did, bit for bit. Means that lean on their own noise, or drafts that are left out
/// because of it, show here even where the output's projection on the draft (z) looks right.
class DecisionWatch {
 public:
  using Place = std::pair<std::uint32_t, std::size_t>;  ///< request, transition

  explicit DecisionWatch(std::set<Place> places) : places_(std::move(places)) {}

  /// An observer of rounds.
  template <class Round>
  void operator()(const Round& round) {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const LatentSample& sample = *round.sequences[i];
      const std::size_t end = sample.step(), first = end - round.outcomes[i].emitted;
      const auto to = places_.lower_bound({sample.request(), end});
      for (auto at = places_.lower_bound({sample.request(), first}); at != to; ++at) {
        const std::size_t j = at->second - first;
        StepDecision& d = decisions_[*at];
        d.round = sample.round();
        d.drafted = j < round.drafts[i].size();
        if (d.drafted) d.mean = round.drafts[i].means[j];
      }
    }
  }

  bool complete() const noexcept { return decisions_.size() == places_.size(); }
  const std::map<Place, StepDecision>& decisions() const noexcept { return decisions_; }

 private:
  std::set<Place> places_;
  std::map<Place, StepDecision> decisions_;
};

/// Transitions of `samples` samples from request `first` on, `count` at most, by seed.
std::set<DecisionWatch::Place> seeded_places(std::uint64_t seed, std::uint32_t first,
                                             std::size_t samples, std::size_t steps,
                                             std::size_t count);

}  // namespace forerun
