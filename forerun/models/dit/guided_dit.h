#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "forerun/models/dit/dit.h"

namespace forerun {

/// Classifier-free guidance (Ho and Salimans 2022, arXiv:2207.12598): noise is predicted with and
/// without the class, and the difference stretched.
struct Guidance {
  double scale = 1.0;  ///< 1: the class alone, and half the work
  /// Channels that are guided, the others are as the class has them: 3 in facebookresearch/DiT (of
  /// 4), all in diffusers. 0: all.
  std::int64_t channels = 0;

  bool on() const noexcept { return scale != 1.0; }
  /// Halves of a pass.
  std::int64_t halves() const noexcept { return on() ? 2 : 1; }
};

/// @param halves  [2, channels, ...] with the class, without; or [1, ...]
/// @return        [channels, ...]
at::Tensor guided(const at::Tensor& halves, const Guidance& guidance);

/// Some images, each at a time of its own.
struct DitRows {
  at::Tensor states;                            ///< [rows, channels, input, input] float32
  std::span<const std::int64_t> times, labels;  ///< [rows]
};

struct GuidedOutput {
  at::Tensor noise;    ///< [rows, channels, input, input]: guided
  at::Tensor feature;  ///< [rows, halves, tokens, hidden]
};

/// Of one half of one row: its state [1, channels, input, input], time and label [1], the features
/// [1, tokens, hidden] of `inputs` if there are any; returns noise and feature of the same shapes.
using HalfPass =
    std::function<DitOutput(std::int64_t row, const at::Tensor& state, const at::Tensor& time,
                            const at::Tensor& label, const at::Tensor& input)>;

/// Every half of every row by itself, in parallel, each on one thread: the numbers of a row do not
/// depend on the rows beside it, nor on how many threads there are.
/// @param inputs  [rows, halves, tokens, hidden], or undefined
GuidedOutput run_halves(const DitConfig& config, const DitRows& rows, const Guidance& guidance,
                        const at::Tensor& inputs, const HalfPass& pass);

/// A DiT as it is sampled from.
class GuidedDit {
 public:
  /// @throws std::invalid_argument  a scale that is no number, more channels than there are
  GuidedDit(std::shared_ptr<const Dit> model, const Guidance& guidance);

  const DitConfig& config() const noexcept { return model_->config; }
  const Guidance& guidance() const noexcept { return guidance_; }
  const Dit& model() const noexcept { return *model_; }

  /// One pass over all rows.
  GuidedOutput run(const DitRows& rows) const;

 private:
  std::shared_ptr<const Dit> model_;
  Guidance guidance_;
};

}  // namespace forerun
