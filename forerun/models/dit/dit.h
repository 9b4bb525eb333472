#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/models/dit/dit_config.h"
#include "forerun/models/model_weight.h"
#include "forerun/tensor/linear.h"

namespace forerun {

/// adaLN-Zero block: attention and MLP, each normed, shifted, scaled and gated by the condition.
struct DitBlock {
  Linear modulation;  ///< [6 hidden, hidden]: shift, scale, gate of attention, then of the MLP
  Linear qkv;         ///< [3 hidden, hidden]
  Linear out;         ///< [hidden, hidden]
  Linear up;          ///< [mlp, hidden]
  Linear down;        ///< [hidden, mlp]
};

/// The final layer: from features to pixels.
struct DitHead {
  Linear modulation;  ///< [2 hidden, hidden]: shift, scale
  Linear out;         ///< [patch * patch * out_channels, hidden]; channels fastest
};

/// The embedding of a time.
struct DitTime {
  Linear in;   ///< [hidden, 256]
  Linear out;  ///< [hidden, hidden]
};

/// A Diffusion Transformer. All tensors float32 (or all float64).
struct Dit {
  DitConfig config;
  Linear patches;        ///< [hidden, channels * patch * patch]; columns: channel, row, column
  at::Tensor positions;  ///< [tokens, hidden], fixed
  DitTime time;
  at::Tensor labels;  ///< [classes + 1, hidden]; the last row is "no class"
  std::vector<DitBlock> blocks;
  DitHead head;
};

/// All trained tensors (all but the positions), by facebookresearch/DiT's names; the patch
/// convolution's weight is [hidden, C, p, p] there.
std::vector<ModelWeight> weights(Dit& model);
/// The tensors of one block, of the head, of a time embedding; names start with `prefix`.
void add_weights(DitBlock& block, const DitConfig& config, const std::string& prefix,
                 std::vector<ModelWeight>& out);
void add_weights(DitHead& head, const DitConfig& config, std::int64_t out_channels,
                 const std::string& prefix, std::vector<ModelWeight>& out);
void add_weights(DitTime& time, const DitConfig& config, const std::string& prefix,
                 std::vector<ModelWeight>& out);

/// [tokens, hidden] float32: sines and cosines of a patch's column, then of its row.
at::Tensor dit_positions(const DitConfig& config);

/// The parts of a pass, for networks that share them.
/// @param time  [batch] float32 or int64: the index among the 1,000 steps of training
/// @return      [batch, hidden]
at::Tensor embed_time(const DitTime& weights, const at::Tensor& time, double divisor);
/// @param patches    [hidden, channels * patch * patch]
/// @param positions  [tokens, hidden]
/// @param x          [batch, channels, input, input]
/// @return           [batch, tokens, hidden], positions added
at::Tensor embed_patches(const Linear& patches, const at::Tensor& positions,
                         const DitConfig& config, const at::Tensor& x);
/// @param h          [batch, tokens, hidden]
/// @param condition  [batch, hidden]: SiLU of time and label embedding
at::Tensor run_block(const DitBlock& block, const DitConfig& config, const at::Tensor& h,
                     const at::Tensor& condition);
/// @param feature  [batch, tokens, hidden]
/// @return         [batch, channels of the head, input, input]
at::Tensor run_head(const DitHead& head, const DitConfig& config, const at::Tensor& feature,
                    const at::Tensor& condition);

/// Multiply-adds of one pass over one image; of one block of it.
double dit_pass_work(const DitConfig& config);
double dit_block_work(const DitConfig& config);

/// [batch, tokens, channels * patch * patch]: the pixels of each patch; channel, row, column.
at::Tensor patch_rows(const DitConfig& config, const at::Tensor& x);

struct DitOutput {
  at::Tensor noise;     ///< [batch, channels, input, input]: the predicted epsilon
  at::Tensor variance;  ///< the same of v, undefined without learned_sigma
  at::Tensor feature;   ///< [batch, tokens, hidden]: the output of the last block, not normed
};

/// One pass (Peebles and Xie 2022, section 3). Differentiable.
/// @param x      [batch, channels, input, input] of the weights' type
/// @param time   [batch] float32 or int64
/// @param label  [batch] int64, `classes` for none
/// @throws std::invalid_argument  other shapes, or labels outside the table
DitOutput run_dit(const Dit& model, const at::Tensor& x, const at::Tensor& time,
                  const at::Tensor& label);

}  // namespace forerun
