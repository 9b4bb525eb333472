#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace forerun {

/// Features of images that others are compared with, as a Gaussian: its mean, its covariance
/// (over n - 1) and the root of that. float64.
class FrechetReference {
 public:
  /// @param features  [n, d] float32 or float64, n >= 2, all finite
  /// @throws std::invalid_argument  another shape, fewer than two images, values that are no
  /// numbers
  explicit FrechetReference(const at::Tensor& features);

  /// |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^1/2): the squared Frechet distance of the Gaussians
  /// fitted to both sets (Dowson and Landau 1982; Heusel et al. 2017, arXiv:1706.08500). The trace
  /// of the root is that of (C1^1/2 C2 C1^1/2)^1/2, which is symmetric; its eigenvalues that
  /// rounding made negative count as 0, so any number of images will do. Never negative.
  /// @param features  [n, d] as above, of the same d
  double distance(const at::Tensor& features) const;

  /// The same of some of the images, e.g. of a bootstrap's. Costs n d^2 and an eigenvalue problem
  /// of d; a set is prepared once for many.
  struct Prepared {
    at::Tensor features;  ///< [n, d] float64, the reference's mean taken off
    at::Tensor rooted;    ///< the same times the root of the reference's covariance
  };
  Prepared prepare(const at::Tensor& features) const;
  /// @param which  indices, repeated ones count each time; two or more
  double distance(const Prepared& prepared, std::span<const std::int64_t> which) const;

 private:
  double distance_of(const at::Tensor& centred, const at::Tensor& rooted) const;

  at::Tensor mean_, root_;  // [d], [d, d] float64
  double trace_ = 0.0;      // of the covariance
};

}  // namespace forerun
