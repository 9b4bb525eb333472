#include "forerun/models/internal/hf_fields.h"

#include "forerun/base/quote.h"

namespace forerun::internal {

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
  } else if (type != "default") {
    errors.fail(fmt::format("rope scaling {} is not supported; default, linear and llama3 are",
                            quote(type)));
  }
  if (!f.error().empty()) errors.fail("rope parameters: " + f.error());
}

nlohmann::json rope_scaling_json(const RopeScaling& s) {
  if (s.kind == RopeScaling::Kind::kNone) return nullptr;
  if (s.kind == RopeScaling::Kind::kLinear) return {{"rope_type", "linear"}, {"factor", s.factor}};
  return {{"rope_type", "llama3"},
          {"factor", s.factor},
          {"low_freq_factor", s.low_freq_factor},
          {"high_freq_factor", s.high_freq_factor},
          {"original_max_position_embeddings", s.original_context}};
}

}  // namespace forerun::internal
