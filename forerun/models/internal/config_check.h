#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "forerun/models/decoder_config.h"

namespace forerun::internal {

/// The error in what layers of experts have besides the number of these, if any.
inline std::optional<std::string> check_experts(const DecoderConfig& c) {
  constexpr std::int64_t kMost = 1 << 24;
  const std::int64_t shared = c.shared_intermediate, dense = c.dense_intermediate;
  if (shared < 0 || shared > kMost || dense < 0 || dense > kMost ||
      (!c.dense.empty() && dense == 0)) {
    return fmt::format(
        "widths of shared experts {} and of layers without experts {} are out of "
        "range",
        shared, dense);
  }
  const auto& [groups, used] = std::pair(c.routing.groups, c.routing.groups_used);
  if (groups == 1 && used == 1) return std::nullopt;
  if (groups < 1 || c.experts % groups != 0 || c.experts / groups < 2) {
    return fmt::format("{} experts do not form {} groups of two and more", c.experts, groups);
  }
  if (used < 1 || used > groups || c.experts / groups * used < c.experts_used) {
    return fmt::format("{} experts are not to be chosen among those of {} of {} groups",
                       c.experts_used, used, groups);
  }
  return std::nullopt;
}

/// The error in the sizes of a config read from a file, if any; bounds keep later products far from
/// overflow.
inline std::optional<std::string> check_sizes(const DecoderConfig& c) {
  constexpr std::int64_t kMost = 1 << 24;
  for (const std::int64_t n :
       {c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.intermediate, c.context}) {
    if (n <= 0 || n > kMost) {
      return fmt::format(
          "sizes are out of range: vocabulary {}, hidden {}, layers {}, heads {}, key heads {}, "
          "head dimension {}, intermediate {}, context {}",
          c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.intermediate, c.context);
    }
  }
  if (c.layers > 1000)
    return fmt::format("{} layers are more than this engine accepts (1000)", c.layers);
  if (c.heads % c.kv_heads != 0) {
    return fmt::format("{} query heads cannot share {} key heads evenly", c.heads, c.kv_heads);
  }
  if (c.experts < 0 || c.experts > 4096 || c.experts_used < 0 || c.experts_used > c.experts ||
      (c.experts > 0 && c.experts_used == 0)) {
    return fmt::format("{} of {} experts are out of range", c.experts_used, c.experts);
  }
  if (const auto bad = check_experts(c)) return bad;
  if (c.head_dim % 2 != 0) return fmt::format("head dimension {} is odd", c.head_dim);
  if (!(c.norm_eps > 0.0 && c.norm_eps < 1.0)) return "the norm's epsilon is out of range";
  return std::nullopt;
}

/// The error in the numbers of rotary embedding and attention, if any: they would turn logits into
/// NaN.
inline std::optional<std::string> check_numbers(const DecoderConfig& c) {
  const auto positive = [](double x) { return std::isfinite(x) && x > 0.0; };
  const RopeScaling& s = c.rope_scaling;
  if (!positive(c.rope_theta) || !positive(c.local_rope_theta)) {
    return fmt::format("the base of the rotary embedding must be positive, not {} and {}",
                       c.rope_theta, c.local_rope_theta);
  }
  if (!positive(s.factor) || !positive(s.low_freq_factor) || !positive(s.original_context) ||
      !(s.high_freq_factor > s.low_freq_factor)) {
    return "the factors of the rope scaling are out of range";
  }
  if (s.kind == RopeScaling::Kind::kYarn &&
      (!positive(s.beta_slow) || !positive(s.beta_fast) || !positive(s.attention_factor) ||
       !(c.rope_theta > 1.0))) {
    return "the numbers of the rope scaling yarn are out of range";
  }
  if (!(c.query_growth.beta >= 0.0) || !std::isfinite(c.query_growth.beta) ||
      !positive(c.query_growth.context)) {
    return fmt::format("queries cannot grow by {} every {} positions", c.query_growth.beta,
                       c.query_growth.context);
  }
  if (c.mask_token && (*c.mask_token < 0 || *c.mask_token >= c.vocab)) {
    return fmt::format("mask_token_id {} lies outside the vocabulary of {}", *c.mask_token,
                       c.vocab);
  }
  if (!positive(c.clamp.limit) || !std::isfinite(c.clamp.slope)) {
    return "the limit of the gates must be positive";
  }
  if (!positive(c.routing.scale)) {
    return fmt::format("the scale {} of experts must be positive", c.routing.scale);
  }
  if (!positive(c.embedding_scale) || !positive(c.residual_scale) || !positive(c.logit_divisor)) {
    return fmt::format(
        "the multipliers {} of embeddings and {} of layers, and the divisor {} of "
        "logits must be positive",
        c.embedding_scale, c.residual_scale, c.logit_divisor);
  }
  if (c.rotated() > c.head_dim || c.rotated() % 2 != 0) {
    return fmt::format("{} dimensions of a head of {} cannot be rotated", c.rotated(), c.head_dim);
  }
  for (const double x : s.longer ? s.long_factors : s.short_factors) {
    if (!positive(x)) return "the factors of the rope scaling longrope must be positive";
  }
  if (s.kind == RopeScaling::Kind::kLongRope && !positive(s.attention_factor)) {
    return "the attention factor of the rope scaling longrope must be positive";
  }
  if (!positive(c.query_scale)) return "the scale of attention scores must be positive";
  if (!(c.attention_softcap >= 0.0 && c.logit_softcap >= 0.0)) return "a soft cap is negative";
  return std::nullopt;
}

}  // namespace forerun::internal
