#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/models/mar/mar.h"
#include "forerun/train/mar/mar_images.h"

namespace forerun {

/// The randomness of a batch, by (seed, image) alone.
struct MarBatch {
  at::Tensor tokens;  ///< [batch, tokens, dim] float32 in the network's order, noise added
  at::Tensor label;   ///< [batch] int64; the number of classes if dropped
  at::Tensor time;    ///< [batch * tokens] int64, uniform below 1,000: one for all draws of a token
  at::Tensor noise;   ///< [batch * tokens, draws, dim] standard normal
  /// Masked form: [batch, tokens] bool, as many in every image; undefined in the causal form. Of
  /// the tokens max(0.7, 1 - 0.25 |N(0, 1)|) are unknown, drawn again below 0.7 (Li et al. 2024).
  at::Tensor known;

  /// The rows of unknown tokens, of all in the causal form.
  /// @param rows  [batch * tokens, ...]
  at::Tensor learned(const at::Tensor& rows) const;
};

struct MarBatchOptions {
  std::int64_t draws = 4;
  double drop = 0.1;
  bool flip = true;
};

/// The backbone's outputs for all tokens of a batch, by the network's form; differentiable.
/// @return  [batch * tokens, hidden]
at::Tensor conditions_of(const Mar& model, const MarBatch& batch);

/// @param images  of the config's size; `which` are indices of it
MarBatch mar_batch(const MarConfig& config, const MarImages& images,
                   std::span<const std::size_t> which, std::uint64_t seed,
                   const MarBatchOptions& options);

/// sqrt(a) tokens + sqrt(1 - a) noise, and what the head should predict of it.
struct NoisyTokens {
  at::Tensor x, wanted;  ///< [batch * tokens, draws, dim]
};
/// @param time, noise  as in MarBatch
NoisyTokens noisy_tokens(MarPrediction prediction, const at::Tensor& tokens, const at::Tensor& time,
                         const at::Tensor& noise);

}  // namespace forerun
