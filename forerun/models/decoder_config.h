#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/core/token.h"
#include "forerun/models/block_config.h"
#include "forerun/tensor/rope.h"

namespace forerun {

enum class Family : std::uint8_t {
  kLlama,
  kQwen2,
  kQwen3,
  kGemma3,
  kGptOss,
  kGemma2,
  kPhi3,
  kOlmo2,
  kGlm4,
  kOlmoe,
  kGlm4Moe,
  kErnie45Moe,
  kLfm2,
  kQwen35
};

/// How wavelengths of the rotary embedding are stretched.
struct RopeScaling {
  enum class Kind : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // kLlama3
  double original_context = 8192.0;                      // kLlama3, kYarn, kLongRope
  /// kYarn: wavelengths that turn more often than beta_fast within the original context stay, those
  /// that turn less often than beta_slow are stretched, others in between.
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;           ///< kYarn: the edges between them are whole dimensions
  double attention_factor = 1.0;  ///< kYarn, kLongRope: of cosines and sines
  /// kLongRope: what wavelengths are multiplied by, [rotated / 2]: the long ones where the model's
  /// context exceeds the original one, whatever the length of a text.
  std::vector<double> short_factors, long_factors;
  bool longer = false;  ///< kLongRope: which of them

  /// What cosines and sines are multiplied by.
  double size() const noexcept {
    return kind == Kind::kYarn || kind == Kind::kLongRope ? attention_factor : 1.0;
  }
};

/// Differences between the decoders of the supported families.
struct DecoderConfig : BlockConfig {
  Family family = Family::kLlama;
  std::int64_t vocab = 0, layers = 0;
  std::int64_t context = 0;      ///< context length of the model
  double query_scale = 0.0;      ///< of query-key products
  QueryGrowth query_growth;      ///< of queries by their positions
  double embedding_scale = 1.0;  ///< Gemma multiplies embeddings by sqrt(hidden)
  double logit_divisor = 1.0;    ///< Granite divides logits
  double attention_softcap = 0.0, logit_softcap = 0.0;  ///< 0 = none
  bool tied_head = false;
  /// A token that stands for what is not known yet (Nemotron-Labs-Diffusion). No text has it: its
  /// logits are minus infinity.
  std::optional<Token> mask_token;

  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::vector<float>
      rope_factors;  ///< [rotated / 2] divisors stored in a GGUF file; empty = from rope_scaling
  double local_rope_theta = 10000.0;  ///< of sliding-window layers
  std::int64_t window = 0;            ///< of sliding-window layers
  std::vector<bool> sliding;          ///< [layers]
  std::vector<bool> no_rope;          ///< [layers] without a rotary embedding; empty: none
  /// [layers] with one MLP `dense_intermediate` wide where others have experts; empty: none
  std::vector<bool> dense;
  /// [layers] with BlockConfig::recurrent in place of attention; empty: none
  std::vector<bool> recurrent_layers;
  bool qkv_biases = false;         ///< queries, keys and values have biases in every file
  std::int64_t unread_layers = 0;  ///< of the file, after the others: they predict further tokens

  DecoderConfig() = default;
  /// The family's kind of blocks.
  explicit DecoderConfig(Family f) : family(f) {
    post_norms = gemma() || f == Family::kOlmo2 || f == Family::kGlm4;
    pre_norms = f != Family::kOlmo2;
    whole_norms = f == Family::kOlmo2 || f == Family::kOlmoe;
    head_norms = f == Family::kGemma3 || f == Family::kQwen3 || f == Family::kLfm2 ||
                 f == Family::kQwen35 || whole_norms;
    output_gate = f == Family::kQwen35;
    qkv_biases = f == Family::kQwen2;
    if (gemma()) activation = Activation::kGeluTanh;
    if (f == Family::kGptOss) {
      activation = Activation::kClamped;
      sinks = norm_topk_prob = true;
    }
  }
  bool gemma() const noexcept { return family == Family::kGemma3 || family == Family::kGemma2; }
  /// Norms multiply by 1 + w in Hugging Face's files.
  bool centered_norms() const noexcept { return gemma() || family == Family::kQwen35; }
  /// Files hold q, k and v in one tensor.
  bool fused_qkv() const noexcept { return family == Family::kPhi3; }
  /// Files hold gate and up in one tensor.
  bool fused_gate_up() const noexcept { return fused_qkv() || family == Family::kGlm4; }
  /// Half a head rotates where files do not say it.
  bool rotates_half() const noexcept {
    return family == Family::kGlm4 || family == Family::kGlm4Moe;
  }
  /// Part of a head rotates where files do not say it: 0 for none.
  double usual_rotation() const noexcept {
    return rotates_half() ? 0.5 : family == Family::kQwen35 ? 0.25 : 0.0;
  }
  /// The pairs of a rotation lie side by side in Hugging Face's files.
  bool neighbours() const noexcept {
    return family == Family::kGlm4 || family == Family::kErnie45Moe;
  }
  /// Layers with a window rotate by a base of their own, and unscaled: a window never reaches far
  /// positions.
  bool local_rope() const noexcept { return family == Family::kGemma3 || family == Family::kOlmo2; }
  /// The norm before the MLP has the name of one after attention.
  bool named_after_attention() const noexcept {
    return post_norms || family == Family::kGptOss || family == Family::kGlm4Moe ||
           family == Family::kQwen35;
  }
  /// Blocks of a layer.
  BlockConfig block(std::size_t layer) const {
    BlockConfig out = *this;
    if (!recurs(layer)) out.recurrent = {};
    if (dense.empty() || !dense[layer]) return out;
    out.intermediate = dense_intermediate;
    out.experts = 0;
    return out;
  }
  bool recurs(std::size_t layer) const {
    return !recurrent_layers.empty() && recurrent_layers[layer];
  }
  std::int64_t recurrent_count() const noexcept {
    return std::count(recurrent_layers.begin(), recurrent_layers.end(), true);
  }
  /// The number of a layer among those of its kind: with attention, or recurrent.
  std::int64_t index_in_kind(std::int64_t layer) const {
    const auto end = recurrent_layers.begin() + (recurrent_layers.empty() ? 0 : layer);
    const std::int64_t before = std::count(recurrent_layers.begin(), end, true);
    return recurs(static_cast<std::size_t>(layer)) ? before : layer - before;
  }
  bool rotates(std::size_t layer) const { return no_rope.empty() || !no_rope[layer]; }
};

/// Frequencies of the rotary embedding, [rotated / 2], of full or of sliding-window layers.
/// Source: Llama-3 scaling and YaRN (arXiv:2309.00071) as in transformers' modeling_rope_utils.py.
std::vector<float> inverse_frequencies(const DecoderConfig& config, bool sliding);
std::vector<float> inverse_frequencies(std::int64_t head_dim, double theta,
                                       const RopeScaling& scaling);

/// What cosines and sines of such layers are multiplied by.
double rope_size(const DecoderConfig& config, bool sliding);
/// Frequencies, sizes and what else positions do.
Rope rope_of(const DecoderConfig& config, bool sliding);

/// From a Hugging Face config.json: of a text model, or the decoder of a Gemma 3 that sees pictures
/// too. Errors: another model_type, quantised weights, a field that is missing or not supported.
Result<DecoderConfig> parse_decoder_config(const nlohmann::json& config);
/// Whether a config.json describes its decoder under "text_config".
bool is_multimodal(const nlohmann::json& config);

std::string name_of(Family family);

}  // namespace forerun
