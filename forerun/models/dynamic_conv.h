#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/models/model_weight.h"

namespace forerun {

/// A short causal convolution of the input of a sublayer, and one of its output, over runs of rows:
/// the slots of one block. The kernel of a row is a base plus a linear function of the sublayer's
/// normed input, one number for every group of channels.
/// Source: DFlash 2, z-lab/dflash, GroupedDynamicCausalConv.
struct DynamicConv {
  at::Tensor base;        ///< [2, taps, hidden]: of the input, of the output
  at::Tensor projection;  ///< [2 * taps * groups, hidden]

  bool defined() const noexcept { return base.defined(); }
  /// The kernels' dynamic parts.
  /// @param x  [rows, hidden]: the normed input
  /// @return   [rows, 2, taps, groups] of the product's type
  at::Tensor deltas(const BlockConfig& config, const at::Tensor& x) const;
  /// y[t] = sum over taps o of (base[o] + delta[t, o]) * x[t - o], without the taps that lie before
  /// the run. Differentiable in every argument.
  /// @param x     [runs * run, hidden]
  /// @param side  0: the input's kernel, 1: the output's
  /// @param run   rows that follow one another
  /// @return      the same shape and dtype
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& deltas, std::int64_t side,
                        std::int64_t run) const;
};

/// Adds its weights by their published names, behind `prefix`.
void add_weights(DynamicConv& conv, const BlockConfig& config, const std::string& prefix,
                 std::vector<ModelWeight>& out);

/// Sets the weights of a convolution that changes nothing: the first tap is one, all else zero.
/// float32, on the CPU.
void make_identity(DynamicConv& conv, const BlockConfig& config);

}  // namespace forerun
