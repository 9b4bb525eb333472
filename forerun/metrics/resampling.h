#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// Sets of images drawn from one set, to see how far a figure of it would move if it were drawn
/// again. Strata (classes) keep their sizes, as they do where images are made in equal shares.
/// What a replicate holds is a pure function of (seed, replicate, strata): two sets of the same
/// strata are drawn alike, image by image, so that what they share does not count as a difference.
class Resampling {
 public:
  /// @param strata  [n] the class of each image; n >= 1
  /// @throws std::invalid_argument  no images
  Resampling(std::span<const std::int64_t> strata, std::uint64_t seed);

  std::int64_t size() const noexcept { return size_; }
  /// [n] indices, drawn with replacement within each stratum (Efron 1979).
  std::vector<std::int64_t> bootstrap(std::uint32_t replicate) const;
  /// [n] whether an image is in a half of each stratum, drawn without replacement (an odd one is in
  /// or out by chance). Over such halves a mean varies as it does over whole sets drawn again.
  std::vector<bool> half(std::uint32_t replicate) const;

 private:
  std::uint64_t word(std::uint32_t replicate, std::uint32_t place, std::uint32_t use) const;

  std::vector<std::vector<std::int64_t>> strata_;  // indices, by stratum
  std::int64_t size_ = 0;
  std::uint64_t seed_ = 0;
};

/// Standard deviation over replicates; 0 for fewer than two.
double deviation(std::span<const double> replicates) noexcept;

/// Share of the images for which `hit` holds.
double share_of(const std::vector<bool>& hit) noexcept;
/// The same of bootstraps. @throws std::invalid_argument  not one answer for each image
std::vector<double> shares_of(const std::vector<bool>& hit, const Resampling& resampling,
                              std::uint32_t replicates);

}  // namespace forerun
