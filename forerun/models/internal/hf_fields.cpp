#include "forerun/models/internal/hf_fields.h"

#include <cmath>

#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

// A factor without mscale is YaRN's own temperature; DeepSeek's two replace it.
void read_yarn(Fields& f, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = f.number("factor", std::nullopt);
  scaling.original_context = f.number("original_max_position_embeddings", std::nullopt);
  scaling.beta_fast = f.number("beta_fast", 32.0);
  scaling.beta_slow = f.number("beta_slow", 1.0);
  scaling.truncate = f.flag("truncate", true);
  const double mscale = f.number("mscale", 0.0), all_dims = f.number("mscale_all_dim", 0.0);
  const auto size = [&](double m) {
    return scaling.factor <= 1.0 ? 1.0 : 0.1 * m * std::log(scaling.factor) + 1.0;
  };
  const bool both = mscale != 0.0 && all_dims != 0.0;
  scaling.attention_factor =
      f.number("attention_factor", both ? size(mscale) / size(all_dims) : size(1.0));
}

}  // namespace

void read_rope(const nlohmann::json& rope, Fields& errors, double& theta, RopeScaling& scaling) {
  if (!rope.is_object()) return errors.fail("the rope parameters are no object");
  Fields f(rope);
  theta = f.number("rope_theta", theta);
  std::string type = f.text("rope_type", "");
  if (type.empty()) type = f.text("type", "default");
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = f.number("factor", std::nullopt);
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    scaling.factor = f.number("factor", std::nullopt);
    scaling.low_freq_factor = f.number("low_freq_factor", std::nullopt);
    scaling.high_freq_factor = f.number("high_freq_factor", std::nullopt);
    scaling.original_context = f.number("original_max_position_embeddings", std::nullopt);
  } else if (type == "yarn") {
    read_yarn(f, scaling);
  } else if (type != "default") {
    errors.fail(fmt::format(
        "rope scaling {} is not supported; default, linear, llama3 and yarn are", quote(type)));
  }
  if (!f.error().empty()) errors.fail("rope parameters: " + f.error());
}

nlohmann::json rope_scaling_json(const RopeScaling& s) {
  if (s.kind == RopeScaling::Kind::kNone) return nullptr;
  if (s.kind == RopeScaling::Kind::kLongRope) {
    return {{"rope_type", "longrope"},
            {"short_factor", s.short_factors},
            {"long_factor", s.long_factors},
            {"original_max_position_embeddings", s.original_context},
            {"attention_factor", s.attention_factor}};
  }
  if (s.kind == RopeScaling::Kind::kLinear) return {{"rope_type", "linear"}, {"factor", s.factor}};
  if (s.kind == RopeScaling::Kind::kYarn) {
    return {{"rope_type", "yarn"},
            {"factor", s.factor},
            {"original_max_position_embeddings", s.original_context},
            {"beta_fast", s.beta_fast},
            {"beta_slow", s.beta_slow},
            {"truncate", s.truncate},
            {"attention_factor", s.attention_factor}};
  }
  return {{"rope_type", "llama3"},
          {"factor", s.factor},
          {"low_freq_factor", s.low_freq_factor},
          {"high_freq_factor", s.high_freq_factor},
          {"original_max_position_embeddings", s.original_context}};
}

}  // namespace forerun::internal
