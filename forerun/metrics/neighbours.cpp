#include "forerun/metrics/neighbours.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "forerun/metrics/internal/features.h"

namespace forerun {
namespace {

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kListed = 32;  // nearest others of a sample; a half holds 3 of them but for
                                      // a chance of 1e-7

// Distances of `rows` to `all`, a block of rows at a time: f(first row, [rows, all]). Without the
// product |a|^2 + |b|^2 - 2ab, by which equal images would not be at distance 0.
void in_blocks(const at::Tensor& rows, const at::Tensor& all,
               const std::function<void(std::int64_t, const at::Tensor&)>& f) {
  constexpr std::int64_t kPlain = 2;  // at::cdist's "donot_use_mm_for_euclid_dist"
  for (std::int64_t first = 0; first < rows.size(0); first += kRows) {
    const at::Tensor block = rows.narrow(0, first, std::min(kRows, rows.size(0) - first));
    f(first, at::cdist(block, all, 2.0, kPlain));
  }
}

// Each image's nearest others, the nearest first.
struct Nearest {
  at::Tensor distances, images;  // [n, listed]
};
Nearest nearest_others(const at::Tensor& x, std::int64_t listed) {
  const std::int64_t n = x.size(0), count = std::min(listed, n - 1);
  Nearest out{at::empty({n, count}, at::kDouble), at::empty({n, count}, at::kLong)};
  in_blocks(x, x, [&](std::int64_t first, const at::Tensor& distances) {
    const std::int64_t rows = distances.size(0);
    distances.narrow(1, first, rows).fill_diagonal_(std::numeric_limits<double>::infinity());
    const auto [values, places] = distances.topk(count, 1, false, true);
    out.distances.narrow(0, first, rows).copy_(values);
    out.images.narrow(0, first, rows).copy_(places);
  });
  return out;
}

// The radius of each image's ball in a part of the set; -1 where the image is not in it.
at::Tensor radii_in(const Nearest& nearest, const std::vector<bool>& part) {
  const std::int64_t n = nearest.images.size(0), listed = nearest.images.size(1);
  at::Tensor out = at::full({n}, -1.0, at::kDouble);
  const auto* const images = nearest.images.const_data_ptr<std::int64_t>();
  const auto* const distances = nearest.distances.const_data_ptr<double>();
  auto* const radii = out.data_ptr<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    if (!part[static_cast<std::size_t>(i)]) continue;
    std::int64_t at = 0;
    for (std::int64_t found = 0; at < listed; ++at) {
      if (part[static_cast<std::size_t>(images[i * listed + at])]) ++found;
      if (found == NearestBalls::kNeighbours) break;
    }
    radii[i] = distances[i * listed + std::min(at, listed - 1)];
  }
  return out;
}

std::vector<bool> bools_of(const at::Tensor& x) {
  const auto* const from = x.const_data_ptr<bool>();
  return std::vector<bool>(from, from + x.numel());  // braces would take the pointers for bools
}

}  // namespace

NearestBalls::NearestBalls(const at::Tensor& references)
    : references_(internal::checked_features(references, kNeighbours + 1)) {
  radii_ =
      nearest_others(references_, kNeighbours).distances.select(1, kNeighbours - 1).contiguous();
}

NearestBalls::Result NearestBalls::compare(const at::Tensor& samples, const Resampling& resampling,
                                           std::uint32_t halves) const {
  const at::Tensor x = internal::checked_features(samples, kNeighbours + 1);
  if (x.size(1) != references_.size(1) || x.size(0) != resampling.size()) {
    throw std::invalid_argument(fmt::format("{} images of {} features, expected {} of {}",
                                            x.size(0), x.size(1), resampling.size(),
                                            references_.size(1)));
  }
  const Nearest nearest = nearest_others(x, kListed);
  // The whole set first, then the halves.
  std::vector<at::Tensor> radii{nearest.distances.select(1, kNeighbours - 1).contiguous()};
  for (std::uint32_t h = 0; h < halves; ++h) {
    const std::vector<bool> part = resampling.half(h);
    const bool enough = std::count(part.begin(), part.end(), true) > kNeighbours;
    radii.push_back(enough ? radii_in(nearest, part) : radii.front());
  }
  at::Tensor precise = at::zeros({x.size(0)}, at::kBool);
  at::Tensor recalled =
      at::zeros({static_cast<std::int64_t>(radii.size()), references_.size(0)}, at::kBool);
  in_blocks(references_, x, [&](std::int64_t first, const at::Tensor& distances) {
    const std::int64_t rows = distances.size(0);
    precise.logical_or_(distances.le(radii_.narrow(0, first, rows).unsqueeze(1)).any(0));
    for (std::size_t r = 0; r < radii.size(); ++r) {
      recalled[static_cast<std::int64_t>(r)]
          .narrow(0, first, rows)
          .copy_(distances.le(radii[r]).any(1));
    }
  });
  Result out{bools_of(precise), bools_of(recalled[0].contiguous()), {}};
  const at::Tensor shares = recalled.to(at::kDouble).mean(1);
  for (std::uint32_t h = 0; h < halves; ++h) {
    out.recalls_of_halves.push_back(shares[static_cast<std::int64_t>(h) + 1].item<double>());
  }
  return out;
}

}  // namespace forerun
