#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "forerun/models/mar/mar_config.h"
#include "forerun/models/model_weight.h"
#include "forerun/tensor/linear.h"

namespace forerun {

/// LayerNorm over the last dimension, eps 1e-6.
struct MarNorm {
  at::Tensor weight, bias;  ///< [dim]
  at::Tensor operator()(const at::Tensor& x) const;
};

/// A block of a Vision Transformer: x += attention(norm(x)); x += MLP(norm(x)), GELU by erf.
struct MarBlock {
  MarNorm norm1, norm2;
  Linear qkv;   ///< [3 hidden, hidden]
  Linear out;   ///< [hidden, hidden]
  Linear up;    ///< [mlp, hidden]
  Linear down;  ///< [hidden, mlp]
};

/// A residual block of the head: two linear layers behind a modulated norm, and a gate.
struct MarHeadBlock {
  MarNorm norm;
  Linear in, out;     ///< [width, width]
  Linear modulation;  ///< [3 width, width]: shift, scale, gate
  Linear time;        ///< the same for the time alone; kSeparate
};

/// The diffusion head: what noise is in a token, given its condition (Li et al. 2024, section 3.3).
struct MarHeadWeights {
  Linear time_in, time_out;  ///< [width, 256], [width, width]
  Linear condition;          ///< [width, hidden]
  Linear input;              ///< [width, dim]
  std::vector<MarHeadBlock> blocks;
  Linear modulation;  ///< of the last layer, [2 width, width]: shift, scale
  Linear time;        ///< the same for the time alone; kSeparate
  Linear output;      ///< [outputs, width]
};

/// An autoregressive transformer over image tokens and its diffusion head. All tensors float32 (or
/// all float64). `buffer` stands for the buffer of the masked form, 1 row of the causal one.
struct Mar {
  MarConfig config;
  at::Tensor classes;  ///< [classes, hidden]
  at::Tensor none;     ///< [1, hidden]: no class
  Linear input;        ///< [hidden, dim]
  MarNorm input_norm;
  at::Tensor encoder_positions;  ///< [1, buffer + tokens, hidden]; causal: [1, tokens, hidden]
  std::vector<MarBlock> encoder;
  MarNorm encoder_norm;
  // Masked form.
  Linear decoder_input;          ///< [hidden, hidden]
  at::Tensor mask;               ///< [1, 1, hidden]
  at::Tensor decoder_positions;  ///< [1, buffer + tokens, hidden]
  std::vector<MarBlock> decoder;
  MarNorm decoder_norm;
  // Causal form.
  at::Tensor query_positions;  ///< [1, tokens, hidden]: of the patch that a row asks for

  at::Tensor head_positions;  ///< [1, tokens, hidden]
  MarHeadWeights head;
};

/// All tensors by LTH14/mar's names, which start with "diffloss.net." in the head; those of the
/// causal form and of kSeparate, which it has not got, in the same manner.
std::vector<ModelWeight> weights(Mar& model);
/// Number of values in the backbone and in the head.
struct MarSize {
  std::int64_t backbone = 0, head = 0;
};
MarSize size_of(const MarConfig& config);
/// A hash that differs for networks with other weights (models/weights_digest.h).
std::string digest_of(const Mar& model);

/// The layers without weights, as the config asks for them.
Mar empty_mar(const MarConfig& config);

/// A block over whole sequences; differentiable.
/// @param h       [batch, rows, hidden]
/// @param causal  a row sees no later ones
at::Tensor run_block(const MarBlock& block, const MarConfig& config, const at::Tensor& h,
                     bool causal);

/// Conditions of all tokens of a causal network, each given its class and the tokens before it;
/// differentiable.
/// @param tokens  [batch, tokens, dim] in the network's order
/// @param label   [batch] int64, `classes` for none
/// @return        [batch, tokens, hidden]
at::Tensor run_causal(const Mar& model, const at::Tensor& tokens, const at::Tensor& label);

/// [n, width]: the embedding of times, a sine of each of 128 frequencies after its cosine.
/// @param time  [n] int64, of 0 to 999
at::Tensor embed_time(const MarHeadWeights& head, const at::Tensor& time);

/// What the head predicts; differentiable.
/// @param x          [tokens, draws, dim] noisy tokens, `draws` of each with one time
/// @param time       [tokens] int64
/// @param condition  [tokens, hidden]
/// @return           [tokens, draws, outputs]
at::Tensor run_head(const MarHeadWeights& head, const MarConfig& config, const at::Tensor& x,
                    const at::Tensor& time, const at::Tensor& condition);

/// Multiply-adds: of the backbone for a whole image (of one pass of the masked form with this share
/// of the tokens known); of the head for the parts that a condition, and that a state has.
double mar_backbone_work(const MarConfig& config, double known = 1.0);
struct MarHeadWork {
  double condition = 0.0;   ///< once a token (kJoint: once a transition)
  double transition = 0.0;  ///< once a transition and row
};
MarHeadWork mar_head_work(const MarConfig& config);

}  // namespace forerun
