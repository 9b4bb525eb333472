#include "forerun/models/build_decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "forerun/base/result.h"
#include "forerun/formats/dequantize.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/models/internal/gpt_oss_experts.h"
#include "forerun/models/internal/joined_tensors.h"
#include "forerun/models/internal/recurrent_tensors.h"
#include "forerun/tensor/huge_table.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

std::string behind_language_model(const std::string& name) {
  constexpr std::string_view kModel = "model.";
  return name.starts_with(kModel) ? "model.language_model." + name.substr(kModel.size()) : name;
}

class Builder {
 public:
  Builder(const DecoderConfig& config, const DecoderFile& file, Precision precision)
      : c_(config),
        naming_(file.naming),
        find_(file.find),
        memory_(file.memory),
        precision_(precision) {}

  DecoderLm build(DecoderParts parts) {
    expect_no_further_layer(parts);
    DecoderLm m;
    m.config = c_;
    m.precision = precision_;
    m.final_norm.eps = c_.norm_eps;
    for (const ModelWeight& w : weights(m)) {
      if (w.tensor == &m.embedding && mapped()) {
        m.stored_embedding = stored(w);
      } else if (w.tensor == &m.own_head && mapped()) {
        m.stored_head = stored(w);
      } else {
        read(w);
      }
    }
    if (has_int8_products(precision_)) {
      m.int8 = packed(m);
      m.embedding = m.own_head = m.final_norm.weight = at::Tensor();
      return m;
    }
    for (std::int64_t i = 0; parts == DecoderParts::kAll && i < c_.layers; ++i) {
      m.layers.push_back(layer(i));
    }
    m.rope = rope_of(c_, false);
    if (c_.window > 0) m.local_rope = rope_of(c_, true);
    return m;
  }

 private:
  // A configuration with fewer layers than the file holds would make another model of it.
  void expect_no_further_layer(DecoderParts parts) {
    if (parts != DecoderParts::kAll) return;
    const char* norm = c_.pre_norms ? "input_layernorm" : "post_attention_layernorm";
    const std::int64_t next = c_.layers + c_.unread_layers;
    if (find(fmt::format("model.layers.{}.{}.weight", next, norm)) == nullptr) return;
    throw FormatError(
        fmt::format("the configuration has {} layers, the file holds more: they do not belong "
                    "together, or the file is damaged",
                    next));
  }

  // Layer by layer through float32, so that at most one layer is held twice.
  std::shared_ptr<const Int8Decoder> packed(const DecoderLm& ends) {
    Arena arena;
    std::vector<Int8Block> layers;
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      layers.push_back(Int8Block::pack(layer(i), c_, arena));
    }
    Int8Matrix head = Int8Matrix::pack(ends.head(), {}, arena);
    return std::make_shared<Int8Decoder>(c_, huge_table(ends.embedding, at::kBFloat16),
                                         std::move(layers), ends.final_norm, std::move(head));
  }

  TransformerBlock layer(std::int64_t index) {
    const BlockConfig own = c_.block(static_cast<std::size_t>(index));
    TransformerBlock b(own);
    parts_.clear();
    const auto listed = [&] {
      std::vector<ModelWeight> out;
      add_weights(b, own, fmt::format("model.layers.{}.", index), out);
      return out;
    };
    for (Linear* l : b.linears()) l->bias = at::empty({0});  // those that the file has
    if (b.recurrent) b.recurrent->values.conv_bias = at::empty({0});
    for (const ModelWeight& w : listed()) {
      const bool optional = w.name.ends_with(".bias") && c_.family != Family::kGptOss;
      if (optional && find(w.name) == nullptr) *w.tensor = at::Tensor();
    }
    const std::vector<ModelWeight> all = listed();
    for (const ModelWeight& w : all) get(w);  // before anything is allocated
    if (b.recurrent) expect_no_biases(b);
    const bool biased = !b.recurrent && has_biases({&b.q, &b.k, &b.v});
    for (auto& [gate, up] : gates(b)) has_biases({gate, up});
    if (mapped() || precision_ == Precision::kInt4) {
      keep_in_file(b, all);
      return b;
    }
    if (!b.recurrent) {
      side_by_side({&b.q, &b.k, &b.v}, {c_.query_width(), c_.kv_width(), c_.kv_width()}, biased);
    }
    for (auto& [gate, up] : gates(b)) {
      const bool shared = b.shared && gate == &b.shared->gate;
      const std::int64_t width = shared ? own.shared_intermediate : own.intermediate;
      side_by_side({gate, up}, {width, width}, gate->bias.defined());
    }
    for (const ModelWeight& w : all) read(w);
    return b;
  }

  // The first matrices of every MLP.
  static std::vector<std::pair<Linear*, Linear*>> gates(TransformerBlock& b) {
    if (b.experts.empty()) return {{&b.gate, &b.up}};
    std::vector<std::pair<Linear*, Linear*>> out;
    for (GatedMlp& e : b.experts) out.emplace_back(&e.gate, &e.up);
    if (b.shared) out.emplace_back(&b.shared->gate, &b.shared->up);
    return out;
  }

  bool mapped() const noexcept { return precision_ == Precision::kFile; }

  // Matrices stay in the file; norms and biases are read.
  void keep_in_file(TransformerBlock& b, const std::vector<ModelWeight>& all) const {
    for (const ModelWeight& w : all) {
      Linear* matrix = nullptr;
      for (Linear* l : b.linears()) {
        if (w.tensor == &l->weight) matrix = l;
      }
      if (matrix != nullptr) {
        matrix->stored = stored(w);
      } else {
        read(w);
      }
    }
  }

  std::shared_ptr<const StoredMatrix> stored(const ModelWeight& w) const {
    try {
      const TensorView& view = get(w);
      const auto part = parts_.find(w.name);
      const bool own = part != parts_.end() && part->second.memory != nullptr;
      return std::make_shared<const StoredMatrix>(view, row_order(w.name),
                                                  own ? part->second.memory : memory_);
    } catch (const std::invalid_argument& e) {
      throw FormatError(e.what());
    }
  }

  // As published: their first product has no room for some.
  void expect_no_biases(const TransformerBlock& b) const {
    for (const Linear& l : b.recurrent->inputs) {
      if (b.recurrent->inputs.size() > 1 && l.bias.defined()) {
        throw FormatError("biases of a recurrent layer's products are not supported");
      }
    }
  }

  // Whether linear layers of one input have biases: all of them, or none.
  bool has_biases(const std::vector<Linear*>& parts) const {
    const auto biased = static_cast<std::size_t>(std::count_if(
        parts.begin(), parts.end(), [](const Linear* l) { return l->bias.defined(); }));
    const bool wants_bias = c_.qkv_biases && parts.size() == 3;  // gpt-oss: `layer`
    if (biased != parts.size() && (biased != 0 || wants_bias)) {
      throw FormatError(fmt::format(
          "{} of {} biases of a block's {} are there: the file is incomplete", biased, parts.size(),
          parts.size() == 3 ? "queries, keys and values" : "gate and up"));
    }
    return biased > 0;
  }

  // Memory for the weights and biases of linear layers of one input, which are one product then.
  void side_by_side(const std::vector<Linear*>& parts, const std::vector<std::int64_t>& rows,
                    bool biased) {
    const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    const at::Tensor weight = at::empty({total, c_.hidden}, scalar_type(precision_));
    const at::Tensor bias = at::empty({total}, scalar_type(precision_));
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parts.size(); first += rows[i++]) {
      parts[i]->weight = weight.narrow(0, first, rows[i]);
      if (biased) parts[i]->bias = bias.narrow(0, first, rows[i]);
    }
  }

  // The file's name of a tensor.
  std::string stored_name(const std::string& own) const {
    const std::string name = internal::joined_recurrent_name(c_, own);
    if (naming_ == Naming::kHuggingFace) {
      return c_.family == Family::kErnie45Moe ? ernie_name(name) : name;
    }
    if (naming_ == Naming::kNemotronDiffusion) return nemotron_name(name);
    if (naming_ == Naming::kMixtral) return mixtral_name(name);
    if (naming_ == Naming::kGptOss) return gpt_oss_name(name);
    if (naming_ == Naming::kGraniteMoe) return internal::granite_moe_name(name);
    if (naming_ == Naming::kFused) return internal::fused_name(c_, name);
    if (naming_ == Naming::kLfm2) return lfm2_name(name);
    if (naming_ == Naming::kLanguageModel) return "language_model." + name;
    if (naming_ == Naming::kModelLanguageModel) return behind_language_model(name);
    return gguf_name(c_, name);
  }

  // Which expert a weight belongs to in a file that has all of them in one tensor; -1: none.
  std::int64_t expert_of(const std::string& name) const {
    constexpr std::string_view kExperts = ".mlp.experts.";
    const std::size_t at = name.find(kExperts);
    const bool one_tensor = naming_ == Naming::kGguf || naming_ == Naming::kGraniteMoe;
    if (!one_tensor || at == std::string::npos) return -1;
    return std::stoll(name.substr(at + kExperts.size()));
  }

  const TensorView* as_one_row(const TensorView& view, const std::string& name) const {
    TensorView& out = parts_[name].view;
    out = view;
    out.shape.insert(out.shape.begin(), 1);
    return &out;
  }

  const TensorView* only_row(const TensorView& view, const std::string& name) const {
    TensorView& out = parts_[name].view;
    out = view;
    out.shape.erase(out.shape.begin());
    return &out;
  }

  // Rows of a tensor that holds several parts.
  const TensorView* rows_of(const TensorView& view, const std::string& name,
                            const internal::PartOfTensor& part) const {
    if (view.shape.empty() || view.shape[0] != part.all) {
      throw FormatError(
          fmt::format("tensor '{}' has shape [{}], {} rows of several parts are asked "
                      "for",
                      view.name, fmt::join(view.shape, ", "), part.all));
    }
    const std::size_t row = view.bytes.size() / static_cast<std::size_t>(part.all);
    TensorView& out = parts_[name].view;
    out = view;
    out.shape[0] = part.rows;
    out.bytes = view.bytes.subspan(static_cast<std::size_t>(part.first) * row,
                                   static_cast<std::size_t>(part.rows) * row);
    return &out;
  }

  // The file's tensor of a weight, or null; a part of one that holds several.
  const TensorView* find(const std::string& name) const {
    if (const auto known = parts_.find(name); known != parts_.end()) return &known->second.view;
    if (naming_ == Naming::kGptOss) {
      std::optional<internal::OwnTensor> part = internal::gpt_oss_expert(name, find_);
      if (part) return &(parts_[name] = *std::move(part)).view;
    }
    const TensorView* view = find_(stored_name(name));
    const std::int64_t expert = expert_of(name);
    const bool gguf = naming_ == Naming::kGguf;
    if (view == nullptr && gguf && c_.family == Family::kLfm2 && name == "model.norm.weight") {
      return find_("output_norm.weight");  // as other families' files have it
    }
    if (view == nullptr) {
      if (gguf && expert < 0) return view;
      view = one_of_all(name);
      return view != nullptr || !gguf ? view : find_(gguf_single_expert(name));
    }
    if (name.ends_with(".shared_expert_gate.weight") && view->shape.size() == 1) {
      return as_one_row(*view, name);
    }
    if (std::optional<internal::OwnTensor> own =
            internal::recurrent_tensor(c_, name, *view, gguf)) {
      return &(parts_[name] = *std::move(own)).view;
    }
    if (name.ends_with("e_score_correction_bias") && view->shape.size() == 2 &&
        view->shape[0] == 1) {
      return only_row(*view, name);  // Ernie's
    }
    const internal::PartOfTensor part = naming_ == Naming::kGraniteMoe
                                            ? internal::part_of_granite_moe(c_, name)
                                            : internal::part_of_tensor(c_, name);
    if (expert >= 0) view = one_expert(*view, name, expert);
    return part.all > 0 ? rows_of(*view, name, part) : view;
  }

  // An expert's weight in a tensor of the gates and ups of all, or of all downs, or null.
  const TensorView* one_of_all(const std::string& name) const {
    const std::string all = internal::all_experts_name(name);
    const char* end = naming_ == Naming::kGguf ? ".weight" : "";
    const TensorView* view = all.empty() ? nullptr : find_(stored_name(all + end));
    if (view == nullptr) return nullptr;
    const std::int64_t number = std::stoll(name.substr(name.find(".experts.") + 9));
    const internal::PartOfTensor part = internal::part_of_all_experts(c_, name);
    view = one_expert(*view, name, number);
    return part.all > 0 ? rows_of(*view, name, part) : view;
  }

  // Of a tensor that holds those of all experts; one of another shape as it is.
  const TensorView* one_expert(const TensorView& view, const std::string& name,
                               std::int64_t expert) const {
    const std::size_t dimensions = name.ends_with(".bias") ? 2 : 3;
    if (view.shape.size() != dimensions || view.shape[0] != c_.experts) return &view;
    const std::size_t bytes = view.bytes.size() / static_cast<std::size_t>(c_.experts);
    TensorView& part = parts_[name].view;
    part = {.name = view.name,
            .dtype = view.dtype,
            .shape = {view.shape.begin() + 1, view.shape.end()},
            .bytes = view.bytes.subspan(static_cast<std::size_t>(expert) * bytes, bytes)};
    return &part;
  }

  const TensorView& get(const ModelWeight& w) const {
    const std::vector<std::int64_t>& shape = w.shape;
    const std::string tensor = stored_name(w.name);
    const TensorView* view = find(w.name);
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
      throw FormatError(fmt::format("tensor '{}' {}", tensor, why_no_weights(view->dtype)));
    }
    return *view;
  }

  // Norms, sinks, corrections and values of recurrent layers stay float32.
  void read(const ModelWeight& w) const {
    const TensorView& view = get(w);
    const bool norm = w.name.ends_with("norm.weight");
    const bool plain = norm || w.name.ends_with("sinks") ||
                       w.name.ends_with("e_score_correction_bias") ||
                       internal::is_recurrent_value(w.name);
    const RowMap order = row_order(w.name);
    if (!w.tensor->defined() || w.tensor->sizes() != at::IntArrayRef(w.shape)) {
      *w.tensor = at::empty(w.shape, plain ? at::kFloat : scalar_type(precision_));
    }
    if (w.shape.size() == 2 && !plain) return fill(view, *w.tensor, order);
    at::Tensor wide = at::empty(w.shape, at::kFloat);
    dequantize(view.dtype, view.bytes,
               {wide.data_ptr<float>(), static_cast<std::size_t>(wide.numel())});
    // llama.cpp's converter has already added the 1.
    const bool centered =
        norm && c_.centered_norms() && !w.name.ends_with("linear_attn.norm.weight");
    if (centered && naming_ != Naming::kGguf) wide.add_(1.0);
    w.tensor->copy_(order ? reordered(wide, order) : wide);
  }

  // llama.cpp pairs neighbouring dimensions in Llama's rotary embedding and stores queries and keys
  // accordingly, as GLM-4's files all do; we always pair dimension j with j + dim / 2.
  RowMap row_order(const std::string& name) const {
    const bool rotated =
        name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos;
    const bool neighbours =
        c_.neighbours() || (naming_ == Naming::kGguf && c_.family == Family::kLlama);
    if (!neighbours || !rotated) return {};
    return [c = static_cast<BlockConfig>(c_)](std::int64_t r) {
      return internal::neighbouring_row(c, r);
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
    parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
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
  const std::shared_ptr<const void>& memory_;
  // Of tensors that hold several; of the layer that is read.
  mutable std::map<std::string, internal::OwnTensor> parts_;
  Precision precision_;
};

}  // namespace

DecoderLm build_decoder(const DecoderConfig& config, const DecoderFile& file, Precision precision,
                        DecoderParts parts) {
  return Builder(config, file, precision).build(parts);
}

}  // namespace forerun
