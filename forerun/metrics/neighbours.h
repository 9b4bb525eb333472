#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/metrics/resampling.h"

namespace forerun {

/// Precision and recall of samples by balls around features (Kynkaanniemi et al. 2019,
/// arXiv:1904.06991): a ball reaches from an image to the k-th nearest other of its own set, its
/// rim included. Time: distances of all pairs, in float64. Memory: those of 256 images to all
/// others at a time, 20 MB against 10,000, besides the features.
class NearestBalls {
 public:
  static constexpr std::int64_t kNeighbours = 3;

  /// @param references  [n, d] features, n > kNeighbours
  /// @throws std::invalid_argument  as FrechetReference
  explicit NearestBalls(const at::Tensor& references);

  struct Result {
    std::vector<bool> precise;   ///< by sample: it lies in a reference's ball
    std::vector<bool> recalled;  ///< by reference: it lies in a sample's ball
    /// The share of references that lie in a ball of half the samples, by replicate. (A bootstrap
    /// would hold images beside copies of themselves, whose balls are too small.)
    std::vector<double> recalls_of_halves;
  };
  /// @param samples  [m, d] features, m > kNeighbours
  /// @param halves   replicates; halves with too few images count as whole sets
  Result compare(const at::Tensor& samples, const Resampling& resampling,
                 std::uint32_t halves) const;

 private:
  at::Tensor references_;  // [n, d] float64
  at::Tensor radii_;       // [n]
};

}  // namespace forerun
