#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "forerun/models/dit/bf16_dit.h"
#include "forerun/models/dit/dit.h"
#include "forerun/models/dit/dit_rows.h"

namespace forerun {

/// One half of one row: its state [1, channels, input, input], time and label [1], and its features
/// [1, tokens, hidden] of `inputs` if there are any; returns noise and feature of the same shapes.
using HalfPass =
    std::function<DitOutput(std::int64_t row, const at::Tensor& state, const at::Tensor& time,
                            const at::Tensor& label, const at::Tensor& input)>;

/// Every half of every row separately, in parallel, each on one thread: the numbers of a row depend
/// neither on the other rows nor on the number of threads.
/// @param inputs  [rows, halves, tokens, hidden], or undefined
GuidedOutput run_halves(const DitConfig& config, const DitRows& rows, const Guidance& guidance,
                        const at::Tensor& inputs, const HalfPass& pass);

/// A DiT as used for sampling.
class GuidedDit {
 public:
  /// @param packed  the same model in bf16, used for passes; or null
  /// @throws std::invalid_argument  a scale that is not finite, more channels than the model has
  GuidedDit(std::shared_ptr<const Dit> model, const Guidance& guidance,
            std::shared_ptr<const Bf16Dit> packed = nullptr);

  const DitConfig& config() const noexcept { return model_->config; }
  const Guidance& guidance() const noexcept { return guidance_; }
  const Dit& model() const noexcept { return *model_; }

  /// One pass over all rows.
  /// @throws std::invalid_argument  states of other sizes, invalid classes or times
  GuidedOutput run(const DitRows& rows) const;

 private:
  std::shared_ptr<const Dit> model_;
  std::shared_ptr<const Bf16Dit> packed_;
  Guidance guidance_;
};

}  // namespace forerun
