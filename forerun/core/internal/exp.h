#pragma once

#include <bit>
#include <cstdint>

namespace forerun::internal {

/// e^x for x <= 0 in double, relative error below 1e-15; 0 below -708, NaN for NaN. Branch-free, so
/// that loops over a vocabulary vectorise. (std::exp does not vectorise, and the softmax of every
/// drafted row is the largest work between two target passes.)
inline double exp_nonpositive(double x) noexcept {
  constexpr double kShift =
      0x1.8p52;  // adding it rounds to an integer held in the low mantissa bits
  constexpr double kLog2Hi = 0x1.62e42fefa0000p-1;
  constexpr double kLog2Lo = 0x1.cf79abc9e3b3ap-40;
  const double clamped = x < -708.0 ? -708.0 : x;
  const double shifted = clamped * 0x1.71547652b82fep0 + kShift;
  const double k = shifted - kShift;
  const double r = (clamped - k * kLog2Hi) - k * kLog2Lo;  // |r| <= ln(2) / 2
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const auto bits = std::bit_cast<std::uint64_t>(shifted) + 1023;  // low bits: k + bias
  const double scale = std::bit_cast<double>(bits << 52);
  return x < -708.0 ? 0.0 : p * scale;
}

/// The same in float32 for x <= 0, relative error below 3e-7; 0 below -87.
inline float exp_nonpositive(float x) noexcept {
  constexpr float kShift = 0x1.8p23F;
  constexpr float kLog2Hi = 0x1.62e4p-1F;
  constexpr float kLog2Lo = 0x1.7f7d1cp-20F;
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * 0x1.715476p0F + kShift;
  const float k = shifted - kShift;
  const float r = (clamped - k * kLog2Hi) - k * kLog2Lo;
  float p = 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto bits = std::bit_cast<std::uint32_t>(shifted) + 127;
  const auto scale = std::bit_cast<float>(bits << 23);
  return x < -87.0F ? 0.0F : p * scale;
}

}  // namespace forerun::internal
