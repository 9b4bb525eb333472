#include "forerun/metrics/frechet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "forerun/metrics/internal/features.h"

namespace forerun {
namespace {

// Eigenvalues that rounding alone makes: their roots would add up to more than rounding.
double least_eigenvalue(const at::Tensor& values) {
  constexpr double kEps = 2.3e-16;
  return std::max(values.max().item<double>(), 0.0) * kEps * static_cast<double>(values.numel());
}

at::Tensor root_of(const at::Tensor& covariance) {
  const auto [values, vectors] = at::linalg_eigh(covariance);
  const at::Tensor kept = at::where(values > least_eigenvalue(values), values, 0.0);
  return at::matmul(vectors * kept.sqrt().unsqueeze(0), vectors.t());
}

}  // namespace

FrechetReference::FrechetReference(const at::Tensor& features) {
  const at::Tensor x = internal::checked_features(features, 2);
  mean_ = x.mean(0);
  const at::Tensor centred = x - mean_;
  const at::Tensor covariance =
      at::matmul(centred.t(), centred) / static_cast<double>(x.size(0) - 1);
  trace_ = covariance.trace().item<double>();
  root_ = root_of(covariance);
}

FrechetReference::Prepared FrechetReference::prepare(const at::Tensor& features) const {
  at::Tensor x = internal::checked_features(features, 2);
  if (x.size(1) != mean_.size(0)) {
    throw std::invalid_argument(
        fmt::format("features of {} values, the reference's have {}", x.size(1), mean_.size(0)));
  }
  x = x - mean_;
  at::Tensor rooted = at::matmul(x, root_);
  return {std::move(x), std::move(rooted)};
}

double FrechetReference::distance(const at::Tensor& features) const {
  const Prepared p = prepare(features);
  return distance_of(p.features, p.rooted);
}

double FrechetReference::distance(const Prepared& p, std::span<const std::int64_t> which) const {
  if (which.size() < 2) throw std::invalid_argument("a covariance needs two images or more");
  const at::Tensor rows = at::tensor(at::ArrayRef<std::int64_t>(which.data(), which.size()));
  return distance_of(p.features.index_select(0, rows), p.rooted.index_select(0, rows));
}

double FrechetReference::distance_of(const at::Tensor& x, const at::Tensor& rooted) const {
  const auto over = static_cast<double>(x.size(0) - 1);
  const at::Tensor shift = x.mean(0);
  const double trace = (x - shift).square().sum().item<double>() / over;
  const at::Tensor y = rooted - rooted.mean(0);
  // The smaller of the two products with the same eigenvalues.
  const bool few = y.size(0) < y.size(1);
  const at::Tensor product = (few ? at::matmul(y, y.t()) : at::matmul(y.t(), y)) / over;
  const at::Tensor values = at::linalg_eigvalsh(product);
  const at::Tensor kept = at::where(values > least_eigenvalue(values), values, 0.0);
  const double common = kept.sqrt().sum().item<double>();
  const double out = shift.square().sum().item<double>() + trace_ + trace - 2.0 * common;
  return std::max(out, 0.0);
}

}  // namespace forerun
