#include "forerun/metrics/resampling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "forerun/core/philox.h"

namespace forerun {
namespace {

enum : std::uint32_t { kBootstrap, kHalf, kOdd };

// Uniform over 0 ... n - 1 to within n / 2^64.
std::int64_t below(std::uint64_t word, std::int64_t n) {
  return static_cast<std::int64_t>(
      (static_cast<unsigned __int128>(word) * static_cast<std::uint64_t>(n)) >> 64);
}

}  // namespace

Resampling::Resampling(std::span<const std::int64_t> strata, std::uint64_t seed)
    : size_(static_cast<std::int64_t>(strata.size())), seed_(seed) {
  if (strata.empty()) throw std::invalid_argument("resampling: no images; give one or more");
  std::map<std::int64_t, std::vector<std::int64_t>> members;
  for (std::size_t i = 0; i < strata.size(); ++i) {
    members[strata[i]].push_back(static_cast<std::int64_t>(i));
  }
  for (auto& [stratum, images] : members) strata_.push_back(std::move(images));
}

std::uint64_t Resampling::word(std::uint32_t replicate, std::uint32_t place,
                               std::uint32_t use) const {
  const auto w = philox4x32({replicate, place, use, 0}, {static_cast<std::uint32_t>(seed_),
                                                         static_cast<std::uint32_t>(seed_ >> 32)});
  return std::uint64_t{w[0]} << 32 | w[1];
}

std::vector<std::int64_t> Resampling::bootstrap(std::uint32_t replicate) const {
  std::vector<std::int64_t> out(static_cast<std::size_t>(size_));
  for (const auto& members : strata_) {
    for (const std::int64_t place : members) {
      const std::uint64_t drawn = word(replicate, static_cast<std::uint32_t>(place), kBootstrap);
      out[static_cast<std::size_t>(place)] = members[static_cast<std::size_t>(
          below(drawn, static_cast<std::int64_t>(members.size())))];
    }
  }
  return out;
}

std::vector<bool> Resampling::half(std::uint32_t replicate) const {
  std::vector<bool> out(static_cast<std::size_t>(size_), false);
  for (std::size_t s = 0; s < strata_.size(); ++s) {
    std::vector<std::int64_t> left = strata_[s];
    std::size_t take = left.size() / 2;
    if (left.size() % 2 == 1) {
      take += word(replicate, static_cast<std::uint32_t>(left.front()), kOdd) >> 63;
    }
    for (std::size_t i = 0; i < take; ++i) {  // Fisher and Yates, as far as it is needed
      const std::uint64_t drawn = word(replicate, static_cast<std::uint32_t>(strata_[s][i]), kHalf);
      const auto j =
          i + static_cast<std::size_t>(below(drawn, static_cast<std::int64_t>(left.size() - i)));
      std::swap(left[i], left[j]);
      out[static_cast<std::size_t>(left[i])] = true;
    }
  }
  return out;
}

double deviation(std::span<const double> replicates) noexcept {
  if (replicates.size() < 2) return 0.0;
  const auto n = static_cast<double>(replicates.size());
  const double mean = std::accumulate(replicates.begin(), replicates.end(), 0.0) / n;
  double squares = 0.0;
  for (const double r : replicates) squares += (r - mean) * (r - mean);
  return std::sqrt(squares / (n - 1.0));
}

double share_of(const std::vector<bool>& hit) noexcept {
  const auto hits = static_cast<double>(std::count(hit.begin(), hit.end(), true));
  return hit.empty() ? 0.0 : hits / static_cast<double>(hit.size());
}

std::vector<double> shares_of(const std::vector<bool>& hit, const Resampling& resampling,
                              std::uint32_t replicates) {
  if (static_cast<std::int64_t>(hit.size()) != resampling.size()) {
    throw std::invalid_argument("shares_of: one answer for each image is expected");
  }
  std::vector<double> out;
  for (std::uint32_t r = 0; r < replicates; ++r) {
    double hits = 0.0;
    for (const std::int64_t i : resampling.bootstrap(r)) {
      hits += hit[static_cast<std::size_t>(i)] ? 1.0 : 0.0;
    }
    out.push_back(hits / static_cast<double>(hit.size()));
  }
  return out;
}

}  // namespace forerun
