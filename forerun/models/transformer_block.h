#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/models/dynamic_conv.h"
#include "forerun/models/model_weight.h"
#include "forerun/models/recurrent_rows.h"
#include "forerun/tensor/linear.h"
#include "forerun/tensor/norm.h"
#include "forerun/tensor/rope.h"

namespace forerun {

/// A gated MLP.
struct GatedMlp {
  Linear gate, up;  ///< [intermediate, hidden]
  Linear down;      ///< [hidden, intermediate]
};

/// What a layer without attention has in its place, besides TransformerBlock::output [hidden,
/// recurrent_outputs()].
struct RecurrentLayer {
  /// kShortConv: [3 * hidden, hidden]. kGatedDelta: queries, keys and values [conv_channels(),
  /// hidden], gates of outputs [value width, hidden], beta and decay [value heads, hidden] each.
  std::vector<Linear> inputs;
  RecurrentValues values;
};

/// Attention and a gated MLP, each after a norm, of every network here that reads text.
/// Weights of q, k and v, and of gate and up, that lie one after another in memory are one product
/// where no gradient is needed.
struct TransformerBlock {
  RmsNorm attention_norm, mlp_norm;            ///< where BlockConfig::pre_norms
  RmsNorm attention_post_norm, mlp_post_norm;  ///< where BlockConfig::post_norms
  RmsNorm q_norm, k_norm;                      ///< where BlockConfig::head_norms
  Linear q;                                    ///< [heads * head_dim, hidden]
  Linear k, v;                                 ///< [kv_heads * head_dim, hidden]
  std::optional<Linear> output_gate;           ///< as q; where BlockConfig::output_gate
  Linear output;                               ///< [hidden, heads * head_dim]
  /// In place of attention, where BlockConfig::recurrent.
  std::optional<RecurrentLayer> recurrent;
  at::Tensor sinks;  ///< [heads] float32; where BlockConfig::sinks
  Linear gate, up;   ///< [intermediate, hidden]
  Linear down;       ///< [hidden, intermediate]
  /// In place of gate, up and down where BlockConfig::experts: a row's output is the sum of those
  /// of its likeliest experts, of equally likely ones the first, each times its score: its
  /// probability by the softmax over all (or over those, where BlockConfig::norm_topk_prob), or as
  /// BlockConfig::routing says. That of `shared` is added, times sigmoid(shared_gate x).
  std::vector<GatedMlp> experts;
  Linear router;                         ///< [experts, hidden]
  at::Tensor correction;                 ///< [experts] float32; where ExpertRouting::corrected
  std::optional<GatedMlp> shared;        ///< where BlockConfig::shared_intermediate
  std::optional<Linear> shared_gate;     ///< [1, hidden]; where BlockConfig::shared_gate
  DynamicConv attention_conv, mlp_conv;  ///< around the sublayers; where BlockConfig::conv_taps

  TransformerBlock() = default;
  /// Without weights.
  explicit TransformerBlock(const BlockConfig& config);
  /// Those that it has.
  std::vector<Linear*> linears();
};

/// Adds the block's weights by their names in Hugging Face's decoders, behind `prefix`; biases are
/// listed where they are defined.
void add_weights(TransformerBlock& block, const BlockConfig& config, const std::string& prefix,
                 std::vector<ModelWeight>& out);

/// Keys and values of some rows, by head.
struct KeysValues {
  at::Tensor k, v;  ///< [rows, kv_heads, head_dim]
};

/// What is added to a block's linear layers: B A x, by two small products (LoRA, Hu et al. 2021,
/// arXiv:2106.09685). Layers without one have undefined tensors.
struct BlockLora {
  struct Pair {
    at::Tensor a;  ///< [rank, inputs]
    at::Tensor b;  ///< [outputs, rank]
  };
  Pair q, k, v, output, gate, up, down;

  std::vector<Pair*> pairs() { return {&q, &k, &v, &output, &gate, &up, &down}; }
};

/// Rows whose linear layers meet an adapter.
struct AdaptedRows {
  const BlockLora* lora = nullptr;
  at::Tensor rows;  ///< [n] int64, rising, without autograd; undefined: all
};

/// Attention of one block: queries [rows, heads, head_dim] and the rows' own keys and values in,
/// [rows, heads * head_dim] out.
using Attend = std::function<at::Tensor(const at::Tensor& q, const KeysValues& own)>;

/// The block over packed rows; differentiable in every weight.
/// @param h  [rows, hidden]: the residual stream
/// @param adapted  no row twice; the other rows' numbers are those without any, bit for bit
/// @param run      rows that the block's convolutions see as one sequence; not read without any
/// @return   the same after the block
at::Tensor run_block(const TransformerBlock& block, const BlockConfig& config, const at::Tensor& h,
                     const Rotation& rotation, const Attend& attend,
                     std::span<const AdaptedRows> adapted = {}, std::int64_t run = 0);

/// The same of a block with a recurrent layer; without autograd.
/// @param rows   of the pass, started, whose sequences follow each other in `h`
/// @param index  of the layer among the recurrent ones
at::Tensor run_block(const TransformerBlock& block, const BlockConfig& config, const at::Tensor& h,
                     RecurrentRows& rows, std::int64_t index);

/// Keys and values alone, for rows that others attend to.
/// @param x  [rows, hidden]: in place of the output of the block's first norm
KeysValues keys_values(const TransformerBlock& block, const BlockConfig& config,
                       const at::Tensor& x, const Rotation& rotation);

}  // namespace forerun
