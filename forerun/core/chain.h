#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/gaussian.h"
#include "forerun/core/latent.h"
#include "forerun/core/rng_key.h"

namespace forerun {

/// The random numbers of one token that is made in inner steps. Substep 0 is the start of its
/// chain, substep k + 1 inner step k.
///
/// Purpose::kTarget is the noise of plain decoding; a draft model uses it too. It depends on the
/// position and the inner step alone, as that of LatentSample on its step, and is exact for the
/// same reason.
struct ChainKey : RngKey {
  /// Numbers of this substep and later ones come from another seed: ChainSample::resample_from.
  std::uint32_t resampled_from = UINT32_MAX;
  std::uint64_t resampled_seed = 0;

  /// Randomness of this substep.
  RngKey at(std::size_t which) const noexcept;
  /// The standard normals that a chain starts from. @return  [dim]
  Latent start(std::size_t dim) const;
  /// The value that inner step `step` draws with this purpose's noise.
  Latent draw(const Gaussian& law, std::size_t step, Purpose purpose) const {
    return law.sample(purpose, at(step + 1));
  }
};

/// A state whose next inner step is asked for.
struct ChainRow {
  std::size_t token = 0;  ///< names the conditional, to the model that made it
  std::size_t step = 0;   ///< inner step, 0 the noisiest
  const Latent* state = nullptr;
};

/// A model of tokens, each drawn from N(0, I) by inner Gaussian steps of fixed standard deviations:
/// a diffusion head. It is asked for many means at once, for that is what it is fast at.
class ChainModel {
 public:
  virtual ~ChainModel() = default;
  /// Mean of each row's step; as many as there are rows.
  virtual std::vector<Latent> means(std::span<const ChainRow> rows) = 0;
  virtual std::span<const double> sigmas() const = 0;  ///< by inner step, each above 0
  virtual std::size_t dim() const = 0;                 ///< numbers of a token
};

/// The law of one token given the tokens before it.
struct ChainLaw {
  ChainModel* model = nullptr;
  std::size_t token = 0;
};

/// A chain that was drawn.
struct ChainPath {
  std::vector<Latent> states;  ///< the start, then the state after every inner step
  std::vector<Latent> means;   ///< of every inner step, around which the next state was drawn
  const Latent& value() const { return states.back(); }
};

/// A chain to draw freely.
struct FreeChain {
  ChainLaw law;
  ChainKey key;
  Purpose noise;  ///< of its inner steps; its start is the token's
};
/// Draws chains of one model side by side: as many calls of the model as there are inner steps.
std::vector<ChainPath> draw_chains(std::span<const FreeChain> chains);

/// A token to couple: its law under the target, and what was drafted for it.
struct ChainTask {
  ChainLaw target;
  const ChainPath* draft = nullptr;  ///< drawn from `drafted_by` with the key's noise; null: none
  ChainLaw drafted_by = {};
  ChainKey key;
};

/// A token, and how it came about.
struct ChainToken {
  ChainPath path;  ///< its means are the target's
  /// Of every inner step: the draft's mean that the certificate compares with, or nothing where it
  /// was not coupled; none without a draft.
  std::vector<Latent> draft_means = {};
  std::vector<std::uint8_t> together = {};  ///< of every inner step: it ended on the draft's state
  std::uint32_t proposals = 0;              ///< of rule path: paths drawn after the rejection
  const Latent& value() const { return path.value(); }
};

/// Reflection with re-merging: every inner step of the draft's chain is coupled with the target's
/// step from the target's own state, which is kept or reflected (core/gaussian.h). Chains that have
/// parted go on apart and may meet again. The draft is accepted iff they end together; if not, the
/// target's chain is the output, and nothing is drawn again.
///
/// Output law: the target's, of the whole chain. Given both chains so far, the noise of the draft's
/// step is N(0, I), so the kept or reflected value is N(m, sigma^2 I) around the target's mean.
/// The target's means of all drafted states are one call; then one call an inner step for all tasks
/// that are apart or have no draft.
/// @return  of each task; "together" is bit equality: an accepted state is the draft's
/// @throws std::invalid_argument  a draft of other dimensions or standard deviations
/// Source: per step Bou-Rabee, Eberle, Zimmer 2020, section 2.3.2.
std::vector<Coupled<ChainToken>> couple_stepwise(std::span<const ChainTask> tasks);

/// The ratio of whole paths: accepts with probability min(1, dP/dQ), P and Q the laws of the chains
/// from their common start. After a rejection paths are drawn from P with fresh noise until one is
/// kept, with probability max(0, 1 - dQ/dP). Each tested token draws one such path on average.
/// Output law: the target's, of the whole chain. P(accepted) = 1 - TV(P, Q).
/// @throws std::invalid_argument  as couple_stepwise
/// Source: Leviathan et al. 2023, arXiv:2211.17192, for densities of paths.
std::vector<Coupled<ChainToken>> couple_path(std::span<const ChainTask> tasks);

/// INEXACT, as published. The target's whole chain is drawn with the draft's noise ("trajectory
/// alignment"); at the last inner step the draft is accepted with probability min(1, S p / q), p
/// and q the Gaussians of that step at each chain's own state, S the product of sigma_q / sigma_p
/// over the steps before, by dimension. Otherwise the last step is drawn again until kept with
/// probability max(0, S p - q) / (S p). The draft has its own standard deviations: where they are
/// the target's, S = 1 and this is exact, and poorer than couple_stepwise.
/// Source: Wang et al. 2024, arXiv:2411.11925, equation 1 and algorithm 1.
std::vector<Coupled<ChainToken>> couple_paper(std::span<const ChainTask> tasks);

/// INEXACT. The same as its code does it: S is the reciprocal; the accepting ratio takes standard
/// deviations 42 times as large, so it asks whether two tokens are close; 100 draws after a
/// rejection, and zeros if none is kept. (ChainRule also leaves out the truncation.)
/// Source: github.com/MarkXCloud/CSpD, read in 2026.
std::vector<Coupled<ChainToken>> couple_code(std::span<const ChainTask> tasks);

/// Probability with which the coupling of an inner step ends together, given the states before it:
/// 2 Phi(-delta / 2) for means `delta` standard deviations apart.
double together_probability(const Gaussian& target, std::span<const float> draft_mean) noexcept;

}  // namespace forerun
