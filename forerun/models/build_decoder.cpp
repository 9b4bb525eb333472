#include "forerun/models/build_decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "forerun/base/result.h"
#include "forerun/formats/dequantize.h"
#include "forerun/models/int8_decoder.h"

namespace forerun {
namespace {

// Part of the model, and its conventional name. "{}" is the layer.
struct Part {
  const char* gguf;
  const char* hugging_face;
};
constexpr Part kEmbedding{"token_embd.weight", "model.embed_tokens.weight"};
constexpr Part kHead{"output.weight", "lm_head.weight"};
constexpr Part kFinalNorm{"output_norm.weight", "model.norm.weight"};
constexpr Part kAttentionNorm{"blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"};
constexpr Part kQuery{"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"};
constexpr Part kKey{"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"};
constexpr Part kValue{"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"};
constexpr Part kOutput{"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"};
constexpr Part kQueryNorm{"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight"};
constexpr Part kKeyNorm{"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight"};
constexpr Part kMlpNorm{"blk.{}.ffn_norm.weight",
                        "model.layers.{}.post_attention_layernorm.weight"};
constexpr Part kGate{"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"};
constexpr Part kUp{"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"};
constexpr Part kDown{"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"};
// Gemma: four norms a layer; Hugging Face's name of the second differs from the other families.
constexpr Part kGemmaAttentionPost{"blk.{}.post_attention_norm.weight",
                                   "model.layers.{}.post_attention_layernorm.weight"};
constexpr Part kGemmaMlpNorm{"blk.{}.ffn_norm.weight",
                             "model.layers.{}.pre_feedforward_layernorm.weight"};
constexpr Part kGemmaMlpPost{"blk.{}.post_ffw_norm.weight",
                             "model.layers.{}.post_feedforward_layernorm.weight"};

// Which stored row holds row `r` of the matrix.
using RowMap = std::function<std::int64_t(std::int64_t)>;

class Builder {
 public:
  Builder(const DecoderConfig& config, Naming naming, const FindTensor& find, Precision precision)
      : c_(config), naming_(naming), find_(find), precision_(precision) {}

  DecoderLm build(DecoderParts parts) {
    DecoderLm m;
    m.config = c_;
    m.precision = precision_;
    if (precision_ == Precision::kInt8) {
      m.int8 = packed();
      return m;
    }
    m.embedding = matrix(name(kEmbedding), c_.vocab, c_.hidden);
    for (std::int64_t i = 0; parts == DecoderParts::kAll && i < c_.layers; ++i) {
      m.layers.push_back(layer(i));
    }
    m.final_norm = norm(name(kFinalNorm), c_.hidden);
    m.head.weight = c_.tied_head ? m.embedding : matrix(name(kHead), c_.vocab, c_.hidden);
    m.rope = Rope(inverse_frequencies(c_, false));
    if (c_.window > 0) m.local_rope = Rope(inverse_frequencies(c_, true));
    return m;
  }

 private:
  // Layer by layer through float32, so that at most one layer is held twice.
  std::shared_ptr<const Int8Decoder> packed() {
    Arena arena;
    std::vector<Int8Layer> layers;
    for (std::int64_t i = 0; i < c_.layers; ++i)
      layers.push_back(Int8Layer::pack(layer(i), c_.activation, arena));
    at::Tensor embedding = matrix(name(kEmbedding), c_.vocab, c_.hidden);
    Int8Matrix head = Int8Matrix::pack(
        c_.tied_head ? embedding : matrix(name(kHead), c_.vocab, c_.hidden), {}, arena);
    embedding = embedding.to(at::kBFloat16);
    return std::make_shared<Int8Decoder>(c_, std::move(embedding), std::move(layers),
                                         norm(name(kFinalNorm), c_.hidden), std::move(head));
  }

  DecoderLayer layer(std::int64_t i) {
    DecoderLayer l;
    const bool gemma = c_.gemma();
    l.attention_norm = norm(name(kAttentionNorm, i), c_.hidden);
    l.mlp_norm = norm(name(gemma ? kGemmaMlpNorm : kMlpNorm, i), c_.hidden);
    if (gemma) {
      l.attention_post_norm = norm(name(kGemmaAttentionPost, i), c_.hidden);
      l.mlp_post_norm = norm(name(kGemmaMlpPost, i), c_.hidden);
    }
    if (gemma || c_.family == Family::kQwen3) {
      l.q_norm = norm(name(kQueryNorm, i), c_.head_dim);
      l.k_norm = norm(name(kKeyNorm, i), c_.head_dim);
    }
    const std::int64_t q = c_.heads * c_.head_dim, kv = c_.kv_heads * c_.head_dim;
    l.qkv = stacked({name(kQuery, i), name(kKey, i), name(kValue, i)}, {q, kv, kv}, c_.hidden);
    l.output = stacked({name(kOutput, i)}, {c_.hidden}, q);
    l.gate_up =
        stacked({name(kGate, i), name(kUp, i)}, {c_.intermediate, c_.intermediate}, c_.hidden);
    l.down = stacked({name(kDown, i)}, {c_.hidden}, c_.intermediate);
    return l;
  }

  std::string name(const Part& part, std::int64_t layer = 0) const {
    const char* pattern = naming_ == Naming::kGguf ? part.gguf : part.hugging_face;
    return fmt::format(fmt::runtime(pattern), layer);
  }

  const TensorView& get(const std::string& tensor, std::vector<std::int64_t> shape) const {
    const TensorView* view = find_(tensor);
    if (view == nullptr) {
      throw FormatError(fmt::format(
          "tensor '{}' is missing: the file is incomplete, or of another architecture than it says",
          tensor));
    }
    if (view->shape != shape) {
      throw FormatError(fmt::format("tensor '{}' has shape [{}], the model's sizes ask for [{}]",
                                    tensor, fmt::join(view->shape, ", "), fmt::join(shape, ", ")));
    }
    if (!holds_weights(view->dtype)) {
      throw FormatError(
          fmt::format("tensor '{}' holds {} where weights are expected; the file is "
                      "damaged or of another architecture",
                      tensor, name_of(view->dtype)));
    }
    return *view;
  }

  RmsNorm norm(const std::string& tensor, std::int64_t dim) const {
    const TensorView& view = get(tensor, {dim});
    at::Tensor weight = at::empty({dim}, at::kFloat);
    dequantize(view.dtype, view.bytes, {weight.data_ptr<float>(), static_cast<std::size_t>(dim)});
    // Gemma multiplies by 1 + w; llama.cpp's converter has already added the 1.
    if (c_.gemma() && naming_ == Naming::kHuggingFace) weight.add_(1.0);
    return {.weight = weight, .eps = c_.norm_eps};
  }

  at::Tensor matrix(const std::string& tensor, std::int64_t rows, std::int64_t cols) const {
    const TensorView& view = get(tensor, {rows, cols});
    at::Tensor out = at::empty({rows, cols}, scalar_type(precision_));
    fill(view, out, {});
    return out;
  }

  // Several matrices of the same width, stacked, with their biases if they have any.
  Linear stacked(const std::vector<std::string>& parts, const std::vector<std::int64_t>& rows,
                 std::int64_t cols) const {
    std::int64_t total = 0;
    std::size_t biased = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      get(parts[i] + ".weight", {rows[i], cols});  // before anything is allocated
      biased += find_(parts[i] + ".bias") != nullptr ? 1 : 0;
      total += rows[i];
    }
    const bool wants_bias = c_.family == Family::kQwen2 && parts.size() == 3;
    if (biased != parts.size() && (biased != 0 || wants_bias)) {
      throw FormatError(
          fmt::format("{} of the {} tensors '{}.bias' are there: the file is incomplete", biased,
                      parts.size(), fmt::join(parts, ".bias', '")));
    }
    Linear out{.weight = at::empty({total, cols}, scalar_type(precision_)), .bias = {}};
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const RowMap order = row_order(parts[i]);
      fill(get(parts[i] + ".weight", {rows[i], cols}), out.weight.narrow(0, first, rows[i]), order);
      if (find_(parts[i] + ".bias") != nullptr) {
        if (!out.bias.defined()) out.bias = at::zeros({total}, scalar_type(precision_));
        const TensorView& bias = get(parts[i] + ".bias", {rows[i]});
        at::Tensor wide = at::empty({rows[i]}, at::kFloat);
        dequantize(bias.dtype, bias.bytes,
                   {wide.data_ptr<float>(), static_cast<std::size_t>(rows[i])});
        out.bias.narrow(0, first, rows[i]).copy_(order ? reordered(wide, order) : wide);
      }
      first += rows[i];
    }
    return out;
  }

  // llama.cpp pairs neighbouring dimensions in Llama's rotary embedding and stores queries and keys
  // accordingly; we always pair dimension j with j + dim / 2.
  RowMap row_order(const std::string& part) const {
    const bool rotated = part.ends_with(".attn_q") || part.ends_with(".attn_k");
    if (naming_ != Naming::kGguf || c_.family != Family::kLlama || !rotated) return {};
    return [dim = c_.head_dim](std::int64_t r) {
      const std::int64_t head = r / dim, half = dim / 2, within = r % dim;
      return head * dim + 2 * (within % half) + within / half;
    };
  }

  static at::Tensor reordered(const at::Tensor& values, const RowMap& order) {
    at::Tensor out = at::empty_like(values);
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      out.data_ptr<float>()[i] = values.data_ptr<float>()[order(i)];
    }
    return out;
  }

  // Decodes a stored matrix row by row, on all threads, directly into its final place.
  void fill(const TensorView& view, const at::Tensor& out, const RowMap& order) const {
    const std::int64_t rows = out.size(0);
    const auto cols = static_cast<std::size_t>(out.size(1));
    const std::size_t row_bytes = view.bytes.size() / static_cast<std::size_t>(rows);
    if (row_bytes * static_cast<std::size_t>(rows) != view.bytes.size() ||
        out.size(1) % block_size(view.dtype) != 0) {
      throw FormatError(fmt::format("tensor '{}': rows of {} are not whole {} blocks", view.name,
                                    cols, name_of(view.dtype)));
    }
    const auto source = [&](std::int64_t r) {
      const auto stored = static_cast<std::size_t>(order ? order(r) : r);
      return view.bytes.subspan(stored * row_bytes, row_bytes);
    };
    at::parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::size_t at = static_cast<std::size_t>(r) * cols;
        if (precision_ != Precision::kBF16) {
          dequantize(view.dtype, source(r), {out.data_ptr<float>() + at, cols});
        } else {
          auto* bits = reinterpret_cast<std::uint16_t*>(out.data_ptr<at::BFloat16>());
          dequantize_bf16(view.dtype, source(r), {bits + at, cols});
        }
      }
    });
  }

  const DecoderConfig& c_;
  Naming naming_;
  const FindTensor& find_;
  Precision precision_;
};

}  // namespace

DecoderLm build_decoder(const DecoderConfig& config, Naming naming, const FindTensor& find,
                        Precision precision, DecoderParts parts) {
  return Builder(config, naming, find, precision).build(parts);
}

}  // namespace forerun
