#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace forerun {

/// The decision of block verification over one sampled draft x_1, ..., x_g. With P_0 = 1 and
/// P_i = min(1, P_{i-1} p(x_i) / q(x_i)) the prefix of length i is kept with probability P_i, which
/// is at least what deciding draft by draft gives. The output after it has the law p if all drafts
/// are kept, else (P p - q)+ normalised.
/// Source: Sun et al. 2024, arXiv:2403.10444, Algorithm 2.
struct Block {
  std::size_t accepted = 0;  ///< drafts kept
  double weight = 1.0;       ///< P of the kept prefix
};

/// log P_1, ..., log P_g from log p(x_i) / q(x_i); none after a prefix of probability 0.
/// @param log_ratio  of draft i = 0, 1, ..., called in order while its prefix has mass
template <class LogRatio>
std::vector<double> block_log_weights(std::size_t drafts, LogRatio&& log_ratio) {
  std::vector<double> out;
  double log_weight = 0.0;
  while (out.size() < drafts && std::isfinite(log_weight)) {
    const double next = log_weight + log_ratio(out.size());
    // A prefix of weight NaN counts as 0: a broken target is never accepted silently.
    log_weight = std::isnan(next) ? -HUGE_VAL : std::min(0.0, next);
    out.push_back(log_weight);
  }
  return out;
}

/// Keeps the longest prefix i with u_i < h_i, h_i = Z_i / (Z_i + 1 - P_i) and h_g = P_g. A prefix
/// that fails does not end the search: every prefix has a number of its own.
/// @param drafts       g
/// @param log_weights  as from `block_log_weights`
/// @param uniform      `uniform(i - 1)` in [0, 1) decides prefix i
/// @param residual     `residual(i, P_i)` is Z_i, the mass of (P_i p - q)+ at draft i
template <class Uniform, class Residual>
Block decide_block(std::size_t drafts, std::span<const double> log_weights, Uniform&& uniform,
                   Residual&& residual) {
  for (std::size_t i = log_weights.size(); i > 0; --i) {
    const double u = uniform(i - 1), weight = std::exp(log_weights[i - 1]);
    // Z <= P, hence h <= P: most failures need no Z.
    if (!(u < weight)) continue;
    if (i == drafts || weight == 1.0) return {i, weight};
    const double z = residual(i, weight);
    if (u * (z - std::expm1(log_weights[i - 1])) < z) return {i, weight};
  }
  return {};
}

}  // namespace forerun
