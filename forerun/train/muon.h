#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/train/adamw.h"
#include "forerun/train/objective.h"

namespace forerun {

/// The nearest matrix with orthonormal rows or columns, roughly: singular values end between 0.7
/// and 1.2. Five Newton-Schulz iterations, products in `type`.
/// Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".
/// @param x  [m, n], finite; zeros stay zeros
at::Tensor orthogonalized(const at::Tensor& x, at::ScalarType type);

/// Muon for the matrices between a network's hidden states, AdamW for all else: embeddings, heads,
/// norms. A matrix moves by its orthogonalized momentum, scaled to the size of AdamW's steps (0.2 *
/// sqrt of the longer side), so one learning rate and one weight decay serve both.
/// Source: Liu et al. 2025, arXiv:2502.16982, section 2.2; numbers as torch.optim.Muon with
/// adjust_lr_fn "match_rms_adamw".
class Optimizer {
 public:
  struct Options {
    AdamW::Options adamw;
    bool muon = false;        ///< false: AdamW for all
    double momentum = 0.95;   ///< of Muon, Nesterov's
    at::ScalarType products;  ///< of Muon's iterations: bfloat16, or float32
  };
  /// Moments are zero, float32. Muon takes parameters with two dimensions and weight decay.
  Optimizer(const std::vector<Parameter>& parameters, const Options& options);

  /// Changes the parameters by one step.
  /// @param gradients  in the order of the parameters
  /// @param rate       learning rate; each parameter's factor applies
  /// @param step       1, 2, ...
  void update_(const std::vector<at::Tensor>& gradients, double rate, std::int64_t step);

  /// Checkpoint contents besides the parameters: "first_moment/NAME", and "second_moment/NAME" of
  /// those with AdamW.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  std::vector<Parameter> parameters_;
  Options options_;
  std::vector<std::size_t> matrices_, others_;  // indices
  std::vector<at::Tensor> momentum_;            // of matrices_
  AdamW adamw_;                                 // of others_
};

}  // namespace forerun
