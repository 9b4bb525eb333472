#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/block.h"
#include "forerun/core/gaussian.h"
#include "forerun/core/outcome.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/sequence_id.h"

namespace forerun {

/// An image or latent: its coordinates in one row.
using Latent = std::vector<float>;

/// The random numbers of one transition of a sample.
struct LatentKey : RngKey {
  /// The noise of the transition, if it is not that of the position: see LatentSample::renew.
  const Latent* renewed = nullptr;
  /// The number of drafts to keep in this round, if it is given: see LatentSample::resample_from.
  std::optional<std::size_t> kept = std::nullopt;

  Latent draw(const Gaussian& law) const;  ///< with the noise of the transition
};

/// One image sampled from noise, step by step.
///
/// The noise of a step depends on its position and not on the round: plain sampling, a kept draft
/// and a reflected one all use it. It may be used again after its draft was discarded. This is
/// exact if a draft's mean, and whether there is a draft, depend on the noise of earlier steps only
/// (DecisionWatch tests it). A perfect drafter then gives the plain image bit for bit.
///
/// A block decision looks at the noise of later steps too, but of each step along one direction
/// only: LatentRule renews that component.
class LatentSample {
 public:
  using Value = Latent;
  /// The noise of a discarded draft is used again.
  static constexpr bool kReusesNoise = true;

  /// @param start  the state before the first step
  /// @param steps  transitions
  /// @param keep   keep all states, for certificates and traces
  /// @param label  class of the image
  /// @param id     tells samples that live at the same time apart; `request` need not
  LatentSample(std::uint64_t seed, std::uint32_t request, Latent start, std::size_t steps,
               bool keep, std::int64_t label, SequenceId id)
      : seed_(seed), id_(id), label_(label), request_(request), steps_(steps), keep_(keep) {
    states_.push_back(std::move(start));
  }
  /// Known by its request.
  LatentSample(std::uint64_t seed, std::uint32_t request, Latent start, std::size_t steps,
               bool keep = false, std::int64_t label = 0)
      : LatentSample(seed, request, std::move(start), steps, keep, label, request) {}

  /// Initial standard normals; they depend on seed and request alone.
  static Latent noise(std::uint64_t seed, std::uint32_t request, std::size_t size);

  std::uint32_t request() const noexcept { return request_; }
  SequenceId id() const noexcept { return id_; }
  std::int64_t label() const noexcept { return label_; }
  std::uint32_t round() const noexcept { return round_; }
  std::size_t step() const noexcept { return done_; }  ///< transitions made
  std::size_t steps() const noexcept { return steps_; }
  const Latent& state() const noexcept { return states_.back(); }
  /// All states from the start on if they are kept; else the last.
  const std::vector<Latent>& states() const noexcept { return states_; }
  bool done() const noexcept { return done_ >= steps_; }

  LatentKey key() const noexcept;  ///< randomness of the next transition
  LatentKey key_at(std::size_t step) const noexcept;
  /// Replaces the noise of a later transition.
  void renew(std::size_t step, Latent noise) { renewed_[step] = std::move(noise); }
  /// Takes noise and uniforms of the steps from `step` on from another seed. Nothing that decides
  /// `step`, or an earlier one, may change by that.
  /// @param kept  drafts that the first rounds keep: block decisions look at later noise, so those
  /// of
  ///              the rounds until `step` is decided are given
  void resample_from(std::size_t step, std::uint64_t seed, std::vector<std::uint32_t> kept = {}) {
    resampled_from_ = step;
    resampled_seed_ = seed;
    kept_ = std::move(kept);
  }
  bool push(Latent value) {
    if (!keep_) states_.clear();
    states_.push_back(std::move(value));
    renewed_.erase(done_);
    ++done_;
    return !done();
  }
  void next_round() noexcept { ++round_; }
  /// Drops the kept states except the last.
  void forget_states() { states_.erase(states_.begin(), states_.end() - 1); }

 private:
  std::uint64_t seed_, resampled_seed_ = 0;
  SequenceId id_;
  std::int64_t label_;
  std::uint32_t request_, round_ = 0;
  std::size_t steps_, done_ = 0, resampled_from_ = SIZE_MAX;
  bool keep_;
  std::vector<Latent> states_;
  std::map<std::size_t, Latent> renewed_;  // noise by transition
  std::vector<std::uint32_t> kept_;        // by round
};

/// The drafted states of one sample and one round, each drawn from N(mean, sigma^2 I) with the
/// noise of its position.
struct LatentDraft {
  std::vector<Latent> values, means;
  std::size_t given =
      0;  ///< the first of them come from the target itself: not predicted, always kept
  std::size_t size() const noexcept { return values.size(); }
};

/// The rule for latents, as the loop applies it: reflection maximal coupling, its relaxed form, or
/// block verification.
///
/// The block form keeps a prefix as `Block` says. The output after it has the noise of its draft,
/// with the component along e, the direction between the means, drawn from the residual: given the
/// kept length, the decision has looked at that noise along e only. (Reflection is the same where P
/// = 1, and wrong below.) The same holds for the noise of every later drafted step, given the steps
/// before it: P(kept < j | x_1..x_j) = 1 - P_j depends on x_j along e_j only. So `settle` renews
/// these components, and what is left of the noise may be used again.
class LatentRule {
 public:
  LatentRule() = default;
  /// INEXACT. @param relaxation  by transition, 0 to 1
  explicit LatentRule(std::vector<double> relaxation) : relaxation_(std::move(relaxation)) {}

  static LatentRule block() {
    LatentRule rule;
    rule.block_ = true;
    return rule;
  }

  bool exact() const noexcept { return relaxation_.empty(); }
  double relaxation(std::size_t step) const { return exact() ? 1.0 : relaxation_.at(step); }

  /// The decision over a whole draft; nothing unless the rule is block.
  std::optional<Block> decide(const LatentDraft& draft,
                              const std::function<Gaussian(std::size_t step)>& conditional,
                              const std::function<LatentKey(std::size_t step)>& key) const;
  Coupled<Latent> couple(const Gaussian& target, const LatentDraft& draft, std::size_t step,
                         const LatentKey& key, const std::optional<Block>& decided) const;
  Latent draw(const Gaussian& target, const LatentKey& key) const;
  /// After a round: renews what its decision has looked at.
  void settle(LatentSample& sample, const LatentDraft& draft,
              const std::function<Gaussian(std::size_t step)>& conditional,
              const Outcome& outcome) const;
  /// P(each draft is kept | the drafts before it were), of the first `count` drafts.
  std::vector<double> keeps(const LatentDraft& draft,
                            const std::function<Gaussian(std::size_t step)>& conditional,
                            std::size_t count) const;

 private:
  bool block_ = false;
  std::vector<double> relaxation_;
};

}  // namespace forerun
