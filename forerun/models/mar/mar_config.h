#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forerun {

/// Which tokens a token's condition depends on.
enum class MarForm : std::uint8_t {
  kCausal,  ///< the class and the tokens before it in one fixed order; keys and values are kept
  kMasked,  ///< the class and all known tokens (Li et al. 2024, arXiv:2406.11838)
};
/// What the head predicts.
enum class MarPrediction : std::uint8_t {
  kVelocity,  ///< sqrt(alpha_bar) noise - sqrt(1 - alpha_bar) x_0: dim outputs
  kNoise,     ///< the noise, and the interpolation of the variance: 2 dim outputs, as published
};
/// How the condition and the time shift, scale and gate the head's blocks.
enum class MarModulation : std::uint8_t {
  kJoint,     ///< Linear(SiLU(time + condition)), as published
  kSeparate,  ///< Linear(SiLU(condition)) + Linear'(SiLU(time)): a sum of two tables in sampling
};

/// Mean squared error of the head's predicted x_0 at times of training, on the data it was trained
/// on: what the variance `kCalibrated` of sampling is made of.
struct MarCalibration {
  std::vector<std::int64_t> times;  ///< rising, of 0 to 999
  std::vector<double> errors;       ///< positive; of one coordinate

  bool empty() const noexcept { return times.empty(); }
  /// Between two times by a straight line through the logarithms; outside them the nearest.
  double error_at(std::int64_t time) const;
  bool operator==(const MarCalibration&) const = default;
};

/// Sizes and conventions of an autoregressive transformer over image tokens that are vectors, each
/// drawn by a small diffusion head (MAR; Li et al. 2024, arXiv:2406.11838).
struct MarConfig {
  MarForm form = MarForm::kCausal;
  std::int64_t side = 32, channels = 1;  ///< of the image, or of its latents
  std::int64_t patch = 4;                ///< side of a token's patch; divides `side`
  std::int64_t classes = 10;

  std::int64_t hidden = 192, heads = 4, mlp = 768;
  std::int64_t depth = 4;          ///< blocks; of the encoder in the masked form
  std::int64_t decoder_depth = 0;  ///< masked form
  std::int64_t buffer = 0;         ///< rows of the class in front, masked form

  std::int64_t head_width = 256, head_blocks = 3;
  MarPrediction prediction = MarPrediction::kVelocity;
  MarModulation modulation = MarModulation::kSeparate;

  /// Causal form: token i is the patch order[i], patches counted by rows. Empty: by rows.
  std::vector<std::int64_t> order;

  /// A token's coordinate is (pixel - mean) / scale, pixels in [-1, 1]; training adds `noise` times
  /// a standard normal to it, because a constant background has no density.
  double mean = 0.0, scale = 1.0, noise = 0.0;
  /// Predicted x_0 are held between these in every chain; equal: they are not.
  double x0_low = 0.0, x0_high = 0.0;
  MarCalibration calibration;
  std::string follows;  ///< digest of the network whose calibration it shares; empty: none

  std::int64_t patches_per_side() const noexcept { return side / patch; }
  std::int64_t tokens() const noexcept { return patches_per_side() * patches_per_side(); }
  std::int64_t dim() const noexcept { return channels * patch * patch; }
  std::int64_t head_dim() const noexcept { return hidden / heads; }
  std::int64_t outputs() const noexcept {
    return prediction == MarPrediction::kNoise ? 2 * dim() : dim();
  }
  std::int64_t patch_of(std::int64_t token) const noexcept {
    return order.empty() ? token : order[static_cast<std::size_t>(token)];
  }
  bool bounded() const noexcept { return x0_low < x0_high; }

  bool operator==(const MarConfig&) const = default;
};

/// @throws std::invalid_argument  invalid or implausibly large sizes, an order that is none
void check_mar_config(const MarConfig& config);

/// Whether the tokens of two networks are the same: in the same order, of the same classes and
/// pixels. Says how those of `a` differ, or is empty.
std::string why_other_tokens(const MarConfig& a, const MarConfig& b);

/// A fixed order in which successive tokens are seldom neighbours: patches by the bits of their
/// places, the highest last (van der Corput in both directions).
/// @throws std::invalid_argument  patches_per_side is not a power of two
std::vector<std::int64_t> scattered_order(std::int64_t patches_per_side);

}  // namespace forerun
