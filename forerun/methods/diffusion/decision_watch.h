#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/core/latent.h"

namespace forerun {

/// The draft's mean of transition `inner` of output `step` of the draft; none without one.
inline Latent drafted_mean(const LatentDraft& draft, std::size_t step, std::size_t /*inner*/) {
  return draft.means[step];
}
inline Latent drafted_mean(const ChainDraft& draft, std::size_t step, std::size_t inner) {
  const auto& means = draft.paths[step].means;
  return means.empty() ? Latent() : means[inner];
}

/// The decision of one transition.
struct StepDecision {
  std::uint32_t round = 0;  ///< of the sample
  bool drafted = false;
  Latent mean;  ///< the draft's
  /// Drafts that the rounds up to this one kept. No part of the decision: a block rule keeps drafts
  /// by the noise of later transitions too.
  std::vector<std::uint32_t> kept;

  /// Bit for bit, also for means that are NaN.
  bool same(const StepDecision& other) const noexcept;
};

/// Records the decisions of some transitions: the counterfactual test of exactness.
///
/// Noise depends on its transition and may have been used before, in discarded drafts. An output
/// has the target's law if the decision of transition k (the round, whether it is drafted, the
/// draft's mean) is a function of the noise and uniforms of earlier transitions. So a run in which
/// those of k and later ones come from another seed (LatentSample::resample_from) must make the
/// same decision for k, bit for bit. Under a block rule the numbers of drafts kept are given
/// too: then LatentRule makes the noise of k independent of all that decides k. This detects means
/// that depend on their own noise, and drafts left out because of it, even if the output's
/// projection on the draft (z) looks right.
class DecisionWatch {
 public:
  using Place = std::pair<std::uint32_t, std::size_t>;  ///< request, transition

  /// @param inner  transitions that make one output: of a token with a diffusion head those of its
  /// chain, which are counted on from token to token
  explicit DecisionWatch(std::set<Place> places, std::size_t inner = 1)
      : places_(std::move(places)), inner_(inner) {}

  /// An observer of rounds.
  template <class Round>
  void operator()(const Round& round) {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const auto& sample = *round.sequences[i];
      const std::size_t end = sample.step(), first = end - round.outcomes[i].emitted;
      std::vector<std::uint32_t>& kept = kept_[sample.request()];
      kept.push_back(round.outcomes[i].accepted);
      const auto to = places_.lower_bound({sample.request(), end * inner_});
      for (auto at = places_.lower_bound({sample.request(), first * inner_}); at != to; ++at) {
        const std::size_t j = at->second / inner_ - first;
        StepDecision& d = decisions_[*at];
        d.round = sample.round();
        d.drafted = j < round.drafts[i].size();
        if (d.drafted) d.mean = drafted_mean(round.drafts[i], j, at->second % inner_);
        d.kept = kept;
      }
    }
  }

  bool complete() const noexcept { return decisions_.size() == places_.size(); }
  const std::map<Place, StepDecision>& decisions() const noexcept { return decisions_; }

 private:
  std::set<Place> places_;
  std::size_t inner_;
  std::map<Place, StepDecision> decisions_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> kept_;  // by request
};

/// Transitions of `samples` samples from request `first` on, `count` at most, by seed.
std::set<DecisionWatch::Place> seeded_places(std::uint64_t seed, std::uint32_t first,
                                             std::size_t samples, std::size_t steps,
                                             std::size_t count);

}  // namespace forerun
