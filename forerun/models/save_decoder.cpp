#include "forerun/models/save_decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "forerun/models/build_decoder.h"
#include "forerun/models/internal/expert_fields.h"
#include "forerun/models/internal/family_fields.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/joined_tensors.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

using nlohmann::json;

// By family.
constexpr const char* kClasses[] = {
    "LlamaForCausalLM",  "Qwen2ForCausalLM",  "Qwen3ForCausalLM",   "Gemma3ForCausalLM",
    "GptOssForCausalLM", "Gemma2ForCausalLM", "Phi3ForCausalLM",    "Olmo2ForCausalLM",
    "Glm4ForCausalLM",   "OlmoeForCausalLM",  "Glm4MoeForCausalLM", "Ernie4_5_MoeForCausalLM",
    "Lfm2ForCausalLM",   "Qwen3_5ForCausalLM"};

// True if a reader of the written config computes the same.
bool survives(const json& written, const DecoderConfig& c) {
  const Result<DecoderConfig> read = parse_decoder_config(written);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); };
  return read && inverse_frequencies(*read, false) == inverse_frequencies(c, false) &&
         rope_size(*read, false) == rope_size(c, false) && read->query_growth == c.query_growth &&
         read->mask_token == c.mask_token && read->window == c.window &&
         read->no_rope == c.no_rope && (c.window == 0 || read->sliding == c.sliding) &&
         (c.window == 0 || inverse_frequencies(*read, true) == inverse_frequencies(c, true)) &&
         read->experts == c.experts && read->experts_used == c.experts_used &&
         read->intermediate == c.intermediate && read->norm_topk_prob == c.norm_topk_prob &&
         read->routing == c.routing && read->shared_intermediate == c.shared_intermediate &&
         read->shared_gate == c.shared_gate && read->dense == c.dense &&
         read->recurrent_layers == c.recurrent_layers && read->recurrent == c.recurrent &&
         read->dense_intermediate == c.dense_intermediate && read->head_norms == c.head_norms &&
         near(read->residual_scale, c.residual_scale) &&
         near(read->logit_divisor, c.logit_divisor) && read->rotary_dim == c.rotary_dim &&
         near(read->query_scale, c.query_scale) && near(read->embedding_scale, c.embedding_scale) &&
         read->attention_softcap == c.attention_softcap && read->logit_softcap == c.logit_softcap;
}

// What Nemotron-Labs-Diffusion has in place of Llama's fields.
void describe_nemotron(json& out, const DecoderConfig& c) {
  out["architectures"] = {"NemotronLabsDiffusionModel"};
  out["model_type"] = "nemotron_labs_diffusion";
  out["mask_token_id"] = *c.mask_token;
  json rope = internal::rope_scaling_json(c.rope_scaling);
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["rope_theta"] = c.rope_theta;
  if (!c.query_growth.none()) {
    rope["llama_4_scaling_beta"] = c.query_growth.beta;
    rope["original_max_position_embeddings"] = c.query_growth.context;
  }
  out["rope_parameters"] = std::move(rope);
  out.erase("rope_theta");
  out.erase("rope_scaling");
}

std::string stored_name(const DecoderConfig& c, const std::string& name) {
  if (c.mask_token) return nemotron_name(name);
  if (c.family == Family::kErnie45Moe) return ernie_name(name);
  if (c.fused_gate_up()) return internal::fused_name(c, name);
  return c.family == Family::kLlama && c.experts > 0 ? mixtral_name(name) : name;
}

// Of a weight, as files have it.
at::Tensor stored_value(const DecoderConfig& c, const ModelWeight& w) {
  const at::Tensor value = w.tensor->detach();
  const bool row = c.family == Family::kErnie45Moe && w.name.ends_with("e_score_correction_bias");
  if (row) return value.unsqueeze(0);
  if (c.gemma() && w.name.ends_with("norm.weight")) return value - 1.0;  // it multiplies by 1 + w
  const bool rotated =
      w.name.find(".q_proj.") != std::string::npos || w.name.find(".k_proj.") != std::string::npos;
  if (!c.neighbours() || !rotated) return value;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < value.size(0); ++i) rows.push_back(internal::neighbouring_row(c, i));
  return at::empty_like(value).index_copy(0, at::tensor(rows, at::kLong), value);
}

}  // namespace

json decoder_config_json(const DecoderConfig& c) {
  json out = {
      {"architectures", {kClasses[static_cast<std::size_t>(c.family)]}},
      {"model_type", c.family == Family::kGemma3 ? "gemma3_text" : name_of(c.family)},
      {"hidden_size", c.hidden},
      {"intermediate_size", c.intermediate},
      {"num_attention_heads", c.heads},
      {"num_key_value_heads", c.kv_heads},
      {"head_dim", c.head_dim},
      {"num_hidden_layers", c.layers},
      {"vocab_size", c.vocab},
      {"max_position_embeddings", c.context},
      {"rms_norm_eps", c.norm_eps},
      {"tie_word_embeddings", c.tied_head},
      {c.gemma() ? "hidden_activation" : "hidden_act", c.gemma() ? "gelu_pytorch_tanh" : "silu"},
      {"rope_theta", c.rope_theta},
      {"rope_scaling", internal::rope_scaling_json(c.rope_scaling)}};
  if (c.gemma()) {
    if (c.family == Family::kGemma3) out["rope_local_base_freq"] = c.local_rope_theta;
    // A reader takes the root again: rounded, so that it comes out as it was.
    out["query_pre_attn_scalar"] = std::round(1e6 / (c.query_scale * c.query_scale)) / 1e6;
    const auto cap = [](double x) { return x > 0.0 ? json(x) : json(); };
    out["attn_logit_softcapping"] = cap(c.attention_softcap);
    out["final_logit_softcapping"] = cap(c.logit_softcap);
  }
  if (c.mask_token) describe_nemotron(out, c);
  if (c.experts > 0) internal::describe_experts(out, c);
  if (!c.no_rope.empty()) internal::describe_smollm3(out, c);
  if (internal::is_granite(c)) internal::describe_granite(out, c);
  internal::describe_part_of_a_head(out, c);
  if (!c.gemma() && c.window == 0) return out;
  out["sliding_window"] = c.window;
  // Readers of "llama" know no window, and those of "mistral" have it in every layer.
  const bool everywhere = std::find(c.sliding.begin(), c.sliding.end(), false) == c.sliding.end();
  if (c.family == Family::kLlama && c.experts > 0) return out;  // Mixtral, which has it everywhere
  if (c.family == Family::kLlama && c.no_rope.empty()) {
    out["architectures"] = {everywhere ? "MistralForCausalLM" : "MinistralForCausalLM"};
    out["model_type"] = everywhere ? "mistral" : "ministral";
    if (everywhere) return out;
  } else if (c.family == Family::kPhi3) {
    return out;  // which has it everywhere
  } else if (c.family == Family::kOlmo2) {
    out["architectures"] = {"Olmo3ForCausalLM"};
    out["model_type"] = internal::kOlmo3;
  } else if (!c.gemma()) {
    out["use_sliding_window"] = true;
  }
  for (const bool sliding : c.sliding) {
    out["layer_types"].push_back(sliding ? "sliding_attention" : "full_attention");
  }
  return out;
}

bool can_be_saved(const DecoderConfig& config) noexcept {
  // All experts of a layer in one tensor.
  const bool granite_moe = config.family == Family::kLlama && config.experts > 0 &&
                           (internal::is_granite(config) || config.shared_intermediate > 0);
  return config.family != Family::kGptOss && !granite_moe && config.recurrent.none();
}

void save_decoder(const std::filesystem::path& folder, const DecoderLm& model,
                  const json& provenance, const DecoderExtras& extras) {
  const DecoderConfig& c = model.config;
  if (model.int8 || model.precision == Precision::kFile || model.layers.empty()) {
    throw std::invalid_argument("save_decoder: the decoder is packed; load it as f32 or bf16");
  }
  if (!can_be_saved(c)) {
    throw std::invalid_argument(
        "save_decoder: models of gpt-oss, and of Granite with experts, cannot be written");
  }
  json described = decoder_config_json(c);
  if (!survives(described, c)) {
    throw std::invalid_argument(
        "save_decoder: Hugging Face's layout cannot hold this config (rotary factors or scales of "
        "a GGUF file); load the model from its Hugging Face folder");
  }
  described["dtype"] = model.precision == Precision::kBF16 ? "bfloat16" : "float32";
  const TransformerBlock& first = model.layers.front();
  described["attention_bias"] = first.q.bias.defined();
  described["mlp_bias"] = first.gate.bias.defined();
  if (extras.config.is_object()) described.update(extras.config);
  if (!provenance.is_null()) described["forerun"] = provenance;
  std::vector<internal::NamedTensor> tensors;
  DecoderLm shared = model;  // the same tensors; only their names are asked for
  for (const ModelWeight& w : weights(shared)) {
    if (!w.tensor->defined() || w.tensor->sizes() != at::IntArrayRef(w.shape)) {
      throw std::invalid_argument(
          fmt::format("save_decoder: weight {} is not of its config's shape", w.name));
    }
    std::string name = stored_name(c, w.name);
    const at::Tensor value = stored_value(c, w);
    const auto joined =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    if (joined != tensors.end()) {  // several weights in one tensor
      joined->value = at::cat({joined->value, value});
    } else {
      tensors.push_back({std::move(name), value, w.tensor->scalar_type()});
    }
  }
  for (internal::NamedTensor& t : internal::named_tensors(extras.weights, "save_decoder")) {
    t.type = t.value.scalar_type();
    tensors.push_back(std::move(t));
  }
  internal::save_model_folder(folder, tensors, described);
}

}  // namespace forerun
