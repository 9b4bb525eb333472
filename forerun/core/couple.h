#pragma once

#include "forerun/core/categorical.h"

namespace forerun {

struct RngKey;

/// Result of a coupling for one drafted value.
template <class Value>
struct Coupled {
  Value value;    ///< the output; it has the target's law
  bool accepted;  ///< the drafted value was kept
};

/// Keeps `drafted` as often as an exact rule can, else draws from (target - draft)+ normalised.
/// Output law: `target`, for every `draft`. P(accepted) = 1 - TV(target, draft).
/// @param drafted  sampled from `draft`; a deterministic draft is a PointMass
/// @throws std::invalid_argument  sizes differ, bad id, or the draft gives `drafted` no mass
/// Source: Leviathan et al. 2023, arXiv:2211.17192, Algorithm 1; Chen et al. 2023,
/// arXiv:2302.01318.
Coupled<Token> couple(const Categorical& target, const Categorical& draft, Token drafted,
                      const RngKey& key);

/// log(target / draft) of a drafted token; -infinity where the target forbids it.
/// @throws std::invalid_argument  as `couple`
double log_ratio(const Categorical& target, const Categorical& draft, Token drafted);

/// Draws y from `target` and accepts iff y is the drafted token. Output law: `target`. Maximal
/// among the couplings with a point mass: P(accepted) = target(draft).
Coupled<Token> couple(const Categorical& target, PointMass draft, const RngKey& key);

/// A deterministic target (temperature 0): accepts iff the draft is its token.
Coupled<Token> couple(PointMass target, PointMass draft) noexcept;

/// Draws with the shared noise of the position, which depends on neither drafter nor round; accepts
/// iff the draft is that token.
/// Output law over seeds: `target`.
Coupled<Token> couple_shared_noise(const Categorical& target, Token drafted, const RngKey& key);

/// INEXACT. Medusa's typical acceptance: keeps the draft if target(draft) > min(epsilon, delta *
/// exp(-H)), H the target's entropy in nats, else draws from `target`. Source: Cai et al. 2024,
/// arXiv:2401.10774, section 2.3.1; epsilon and delta as in the reference code.
Coupled<Token> couple_typical(const Categorical& target, Token drafted, const RngKey& key,
                              double epsilon = 0.09, double delta = 0.3);

/// INEXACT. The p/q test applied to a draft that was found by search and only scored by `draft`: as
/// `couple`, but `drafted` was not sampled, so likely tokens are too frequent.
/// @throws std::invalid_argument  as `couple`
Coupled<Token> couple_ratio_on_search(const Categorical& target, const Categorical& draft,
                                      Token drafted, const RngKey& key);

}  // namespace forerun
