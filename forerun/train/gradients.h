#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "forerun/train/objective.h"

namespace forerun {

/// The gradients of all parameters in one buffer, so a norm, a scaling or a sum over ranks is one
/// operation. Parameters' `grad` are views of it while the object lives.
class Gradients {
 public:
  /// @throws std::invalid_argument  a parameter that violates `Parameter`, or a duplicate name
  explicit Gradients(std::vector<Parameter>& parameters);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  ~Gradients();

  void zero_();
  /// Euclidean norm, summed in float64. NaN or infinite if an element is.
  double norm() const;
  void scale_(double factor);
  /// [numbers] float32, parameter by parameter.
  std::span<float> values_();
  /// With the parameters' shapes, views.
  const std::vector<at::Tensor>& tensors() const noexcept { return views_; }

 private:
  std::vector<Parameter>& parameters_;
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
};

/// The factor that brings a gradient of norm `norm` to at most `limit`; 1 if `limit` is 0.
double clip_factor(double norm, double limit);

}  // namespace forerun
