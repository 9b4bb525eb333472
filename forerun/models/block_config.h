#pragma once

#include <algorithm>
#include <cstdint>

namespace forerun {

enum class Activation : std::uint8_t { kSilu, kGeluTanh, kClamped };

/// Gates of Activation::kClamped: g * sigmoid(slope * g) * (u + 1), with the gate g up to `limit`
/// and the other factor u within +-limit (gpt-oss, arXiv:2508.10925).
struct ClampedGate {
  double slope = 1.702, limit = 7.0;
};

/// How rows choose among the experts of an MLP, and what the outputs of those are multiplied by.
struct ExpertRouting {
  /// What transformers adds to the sum of sigmoids, which may all be zero.
  static constexpr double kNoZero = 1e-20;
  /// Scores are sigmoids of the router's logits, in place of the softmax over all of them.
  bool sigmoid = false;
  /// Experts are chosen by their scores plus a number of their own; shares are of the scores alone
  /// (DeepSeek-V3, arXiv:2412.19437).
  bool corrected = false;
  double scale = 1.0;  ///< of the shares
  /// Experts stand in so many groups of one size, in order. A row chooses among those of the groups
  /// with the largest sums of two (corrected) scores.
  std::int64_t groups = 1, groups_used = 1;

  bool operator==(const ExpertRouting&) const = default;
};

/// A layer that carries a state along the text in place of keys and values.
struct RecurrentConfig {
  enum class Kind : std::uint8_t {
    kNone,
    kShortConv,   ///< a convolution between two gates (LFM2, arXiv:2511.23404)
    kGatedDelta,  ///< linear attention by the gated delta rule (arXiv:2412.06464; Qwen3.5)
  };
  Kind kind = Kind::kNone;
  std::int64_t taps = 0;                        ///< rows that its convolution reads, the own last
  std::int64_t key_heads = 0, key_dim = 0;      ///< of kGatedDelta, as the values'
  std::int64_t value_heads = 0, value_dim = 0;  ///< a head each has a matrix [key_dim, value_dim]
  /// Value head j goes with key head j % key_heads (llama.cpp's files), else with
  /// j / (value_heads / key_heads).
  bool tiled = false;
  /// Files have queries, keys, values and gates of one key head after the other in one tensor
  /// (Qwen3-Next).
  bool by_heads = false;
  /// And beta and decay in another one.
  bool rates_by_heads = false;

  bool none() const noexcept { return kind == Kind::kNone; }
  std::int64_t key_width() const noexcept { return key_heads * key_dim; }
  std::int64_t value_width() const noexcept { return value_heads * value_dim; }
  std::int64_t key_head_of(std::int64_t value_head) const noexcept {
    return tiled ? value_head % key_heads : value_head / (value_heads / key_heads);
  }
  bool operator==(const RecurrentConfig&) const = default;
};

/// What the transformer blocks of a network share.
struct BlockConfig {
  std::int64_t hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double norm_eps = 1e-6;
  Activation activation = Activation::kSilu;  ///< of the gates
  ClampedGate clamp;                          ///< where `activation` is kClamped
  /// Every head has a score besides those of the keys that takes part in the softmax and brings no
  /// value.
  bool sinks = false;
  bool head_norms = false;      ///< queries and keys are normed before the rotary embedding
  bool post_norms = false;      ///< the outputs of attention and MLP are normed (Gemma)
  bool pre_norms = true;        ///< the inputs of attention and MLP are normed
  bool whole_norms = false;     ///< head_norms are over all heads at once (OLMo 2)
  std::int64_t rotary_dim = 0;  ///< first dimensions of a head, which are rotated; 0: all
  double residual_scale = 1.0;  ///< of what attention and MLP add to the residual stream
  /// Norms and gates in one pass over memory each (tensor/fused.h), for training; else by ATen's
  /// operations, whose rounding decoders keep when they generate.
  bool fused = false;
  std::int64_t experts = 0;       ///< of the MLP, each `intermediate` wide; 0: one MLP for all rows
  std::int64_t experts_used = 0;  ///< by each row
  bool norm_topk_prob = false;    ///< the scores of a row's experts are made to sum to one
  ExpertRouting routing;
  /// Width of one more MLP beside the experts, which all rows use; 0: none.
  std::int64_t shared_intermediate = 0;
  /// Its output is multiplied by a sigmoid of a product with its input.
  bool shared_gate = false;
  std::int64_t dense_intermediate = 0;  ///< of layers without experts among others; 0: none
  /// Rows that the convolutions around attention and MLP reach, the own one included; 0: none.
  std::int64_t conv_taps = 0;
  std::int64_t conv_group = 16;  ///< channels that share the dynamic part of a kernel

  RecurrentConfig recurrent;  ///< of layers that have no attention
  bool output_gate = false;   ///< outputs of attention are multiplied by sigmoids of gates

  /// Channels of a recurrent layer's convolution.
  std::int64_t conv_channels() const noexcept {
    return recurrent.kind == RecurrentConfig::Kind::kShortConv
               ? hidden
               : 2 * recurrent.key_width() + recurrent.value_width();
  }
  /// Outputs of a recurrent layer's first product, and inputs of its last one.
  std::int64_t recurrent_inputs() const noexcept {
    return recurrent.kind == RecurrentConfig::Kind::kShortConv
               ? 3 * hidden
               : conv_channels() + recurrent.value_width();
  }
  std::int64_t recurrent_outputs() const noexcept {
    return recurrent.kind == RecurrentConfig::Kind::kShortConv ? hidden : recurrent.value_width();
  }
  /// Numbers of a row's queries, keys, values and gates.
  std::int64_t attention_inputs() const noexcept {
    return (output_gate ? 2 : 1) * query_width() + 2 * kv_width();
  }
  std::int64_t rotated() const noexcept { return rotary_dim > 0 ? rotary_dim : head_dim; }
  /// Blocks as those of the Llama and Qwen families.
  bool plain() const noexcept {
    return shared_intermediate == 0 && dense_intermediate == 0 && routing == ExpertRouting{} &&
           pre_norms && !post_norms && !whole_norms && !sinks && rotary_dim == 0 &&
           residual_scale == 1.0 && activation == Activation::kSilu && recurrent.none() &&
           !output_gate;
  }
  std::int64_t query_width() const noexcept { return heads * head_dim; }
  std::int64_t kv_width() const noexcept { return kv_heads * head_dim; }
  std::int64_t most_intermediate() const noexcept {
    return std::max({intermediate, shared_intermediate, dense_intermediate});
  }
  /// Whether linear layers have whole groups of 32 inputs, as weights of 4 bits need.
  bool takes_four_bits() const noexcept {
    return hidden % 32 == 0 && query_width() % 32 == 0 && intermediate % 32 == 0 &&
           shared_intermediate % 32 == 0 && dense_intermediate % 32 == 0 &&
           recurrent.value_width() % 32 == 0;
  }
  /// Numbers of a row's kernels around one sublayer: of input and output, taps, groups.
  std::int64_t conv_outputs() const noexcept { return 2 * conv_taps * (hidden / conv_group); }
};

}  // namespace forerun
