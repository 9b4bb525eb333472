#include "forerun/models/decoder_config.h"

#include <algorithm>
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

// The pair of dimensions that turns so often within the original context.
double yarn_edge(double turns, double theta, std::int64_t head_dim, const RopeScaling& s) {
  return static_cast<double>(head_dim) *
         std::log(s.original_context / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
}

double yarn_scaled(std::size_t j, double theta, std::int64_t head_dim, const RopeScaling& s) {
  double low = yarn_edge(s.beta_fast, theta, head_dim, s);
  double high = yarn_edge(s.beta_slow, theta, head_dim, s);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
  const double f = frequency(j, theta, head_dim);
  return f / s.factor * stretched + f * (1.0 - stretched);
}

double scaled(std::size_t j, double theta, std::int64_t head_dim, const RopeScaling& s) {
  const double f = frequency(j, theta, head_dim);
  switch (s.kind) {
    case RopeScaling::Kind::kNone:
      return f;
    case RopeScaling::Kind::kLinear:
      return f / s.factor;
    case RopeScaling::Kind::kLlama3:
      return llama3_scaled(f, s);
    case RopeScaling::Kind::kYarn:
      return yarn_scaled(j, theta, head_dim, s);
    case RopeScaling::Kind::kLongRope:
      return f / (s.longer ? s.long_factors : s.short_factors)[j];
  }
  return f;
}

}  // namespace

std::vector<float> inverse_frequencies(const DecoderConfig& c, bool sliding) {
  std::vector<float> out(static_cast<std::size_t>(c.rotated() / 2));
  const double theta = sliding ? c.local_rope_theta : c.rope_theta;
  for (std::size_t j = 0; j < out.size(); ++j) {
    double f = frequency(j, theta, c.rotated());
    if (!sliding || !c.local_rope()) {
      f = c.rope_factors.empty() ? scaled(j, theta, c.rotated(), c.rope_scaling)
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
    out[j] = static_cast<float>(scaled(j, theta, head_dim, scaling));
  }
  return out;
}

double rope_size(const DecoderConfig& c, bool sliding) {
  return sliding && c.local_rope() ? 1.0 : c.rope_scaling.size();
}

Rope rope_of(const DecoderConfig& c, bool sliding) {
  return Rope(inverse_frequencies(c, sliding), rope_size(c, sliding), c.query_growth);
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
    case Family::kGptOss:
      return "gpt_oss";
    case Family::kGemma2:
      return "gemma2";
    case Family::kPhi3:
      return "phi3";
    case Family::kOlmo2:
      return "olmo2";
    case Family::kGlm4:
      return "glm4";
    case Family::kOlmoe:
      return "olmoe";
    case Family::kGlm4Moe:
      return "glm4_moe";
    case Family::kErnie45Moe:
      return "ernie4_5_moe";
    case Family::kLfm2:
      return "lfm2";
    case Family::kQwen35:
      return "qwen3_5_text";
  }
  return "?";
}

}  // namespace forerun
