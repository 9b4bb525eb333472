#include "forerun/models/dflash/save_dflash.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forerun/formats/atomic_file.h"
#include "forerun/formats/safetensors_write.h"

namespace forerun {
namespace {

using nlohmann::json;

json config_of(const DFlash& m, const json& provenance) {
  const DFlashConfig& c = m.config;
  json types = json::array();
  std::int64_t window = 0;
  for (const LayerAttention& a : c.attention) {
    types.push_back(a.window > 0 ? "sliding_attention" : "full_attention");
    window = std::max(window, a.window);
  }
  json dflash = {{"target_layer_ids", c.feature_layers},
                 {"mask_token_id", c.mask_token},
                 {"block_size", c.block},
                 {"sample_from_anchor", c.predicts_next},
                 {"input_embedding_scale", c.embedding_scale},
                 {"output_multiplier", c.output_multiplier},
                 {"draft_vocab_size", c.draft_vocab},
                 {"markov_rank", c.markov_rank},
                 {"enable_confidence_head", c.confidence},
                 {"confidence_head_with_markov", c.confidence_sees_markov}};
  if (c.final_softcap > 0.0) dflash["final_logit_softcapping"] = c.final_softcap;
  json out = {{"architectures", {"DFlashDraftModel"}},
              {"model_type", "qwen3"},
              {"hidden_size", c.hidden},
              {"intermediate_size", c.intermediate},
              {"num_hidden_layers", c.layers},
              {"num_attention_heads", c.heads},
              {"num_key_value_heads", c.kv_heads},
              {"head_dim", c.head_dim},
              {"vocab_size", c.vocab},
              {"rms_norm_eps", c.norm_eps},
              {"rope_theta", c.rope_theta},
              {"attention_bias", false},
              {"tie_word_embeddings", false},
              {"layer_types", types},
              {"num_target_layers", c.target_layers},
              {"dtype", "bfloat16"},
              {"dflash_config", dflash},
              {"forerun", provenance}};
  if (window > 0) out["sliding_window"] = window;
  return out;
}

}  // namespace

void save_dflash(const std::filesystem::path& folder, const DFlash& model, const json& provenance) {
  DFlash m = model;
  std::vector<at::Tensor> kept;
  std::vector<TensorView> views;
  const auto view = [&](const std::string& name, const at::Tensor& t, DType dtype) {
    kept.push_back(t.contiguous());
    views.push_back({name,
                     dtype,
                     kept.back().sizes().vec(),
                     {static_cast<const std::byte*>(kept.back().const_data_ptr()),
                      static_cast<std::size_t>(kept.back().nbytes())}});
  };
  for (const DFlashWeight& w : weights(m)) {
    view(w.name, w.tensor->detach().to(at::kBFloat16), DType::kBF16);
  }
  if (m.draft_to_target.defined()) {
    view("d2t", m.draft_to_target - at::arange(m.draft_to_target.numel()), DType::kI64);
  }
  write_safetensors(folder / "model.safetensors", views, {{"format", "pt"}});
  const std::string text = config_of(m, provenance).dump(2) + "\n";
  AtomicFile file(folder / "config.json");
  file.append(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace forerun
