#include "forerun/models/decoder_config.h"

#include <cmath>
#include <numbers>

namespace forerun {
namespace {

double llama3_scaled(double frequency, const RopeScaling& s) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low = s.original_context / s.low_freq_factor;
  const double high = s.original_context / s.high_freq_factor;
  if (wavelength > low) return frequency / s.factor;
  if (wavelength < high) return frequency;
  const double smooth = (s.original_context / wavelength - s.low_freq_factor) /
                        (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

double frequency(std::size_t j, double theta, std::int64_t head_dim) {
  return std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
}

double scaled(double frequency, const RopeScaling& s) {
  switch (s.kind) {
    case RopeScaling::Kind::kNone:
      return frequency;
    case RopeScaling::Kind::kLinear:
      return frequency / s.factor;
    case RopeScaling::Kind::kLlama3:
      return llama3_scaled(frequency, s);
  }
  return frequency;
}

}  // namespace

std::vector<float> inverse_frequencies(const DecoderConfig& c, bool sliding) {
  std::vector<float> out(static_cast<std::size_t>(c.head_dim / 2));
  const double theta = sliding ? c.local_rope_theta : c.rope_theta;
  for (std::size_t j = 0; j < out.size(); ++j) {
    double f = frequency(j, theta, c.head_dim);
    // In Gemma, scaling stretches full attention only: a window never reaches far positions.
    if (!sliding || !c.gemma()) {
      f = c.rope_factors.empty() ? scaled(f, c.rope_scaling)
                                 : f / static_cast<double>(c.rope_factors[j]);
    }
    out[j] = static_cast<float>(f);
  }
  return out;
}

std::vector<float> inverse_frequencies(std::int64_t head_dim, double theta,
                                       const RopeScaling& scaling) {
  std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t j = 0; j < out.size(); ++j) {
    out[j] = static_cast<float>(scaled(frequency(j, theta, head_dim), scaling));
  }
  return out;
}

std::string name_of(Family family) {
  switch (family) {
    case Family::kLlama:
      return "llama";
    case Family::kQwen2:
      return "qwen2";
    case Family::kQwen3:
      return "qwen3";
    case Family::kGemma3:
      return "gemma3";
  }
  return "?";
}

}  // namespace forerun
