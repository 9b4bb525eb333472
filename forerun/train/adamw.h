#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/train/objective.h"

namespace forerun {

/// AdamW: Adam with decoupled weight decay.
/// Source: Loshchilov and Hutter 2019, arXiv:1711.05101, Algorithm 2; numbers as torch.optim.AdamW.
class AdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.0;
  };
  /// Moments are zero, float32, with the parameters' shapes.
  AdamW(std::vector<Parameter> parameters, Options options);

  /// Updates the parameters by one step.
  /// @param gradients  in the order of the parameters
  /// @param rate       learning rate; each parameter's factor applies
  /// @param step       1, 2, ...
  void update_(const std::vector<at::Tensor>& gradients, double rate, std::int64_t step);

  const std::vector<at::Tensor>& first_moments() const noexcept { return m_; }
  const std::vector<at::Tensor>& second_moments() const noexcept { return v_; }

 private:
  struct Group {  // parameters with the same factor and decay: one call of the fused kernel
    double rate;
    bool decay;
    std::vector<std::size_t> members;
  };

  std::vector<Parameter> parameters_;
  Options options_;
  std::vector<at::Tensor> m_, v_;
  std::vector<Group> groups_;
};

/// An exponential average of the parameters, tested and shipped if requested.
class WeightAverage {
 public:
  /// @param decay  in [0, 1); 0: no average
  WeightAverage(const std::vector<Parameter>& parameters, double decay);

  bool on() const noexcept { return decay_ > 0.0; }
  /// After an update. Early on the decay is (1 + step) / (10 + step), so the first weights are soon
  /// forgotten.
  void update_(const std::vector<Parameter>& parameters, std::int64_t step);
  /// Empty if there is no average.
  const std::vector<at::Tensor>& values() const noexcept { return values_; }

 private:
  double decay_;
  std::vector<at::Tensor> values_;
};

}  // namespace forerun
