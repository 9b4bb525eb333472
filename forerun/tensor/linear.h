#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <memory>
#include <vector>

#include "forerun/tensor/stored_matrix.h"

namespace forerun {

/// y = x W^T + b over the packed rows of every sequence.
struct Linear {
  at::Tensor weight;                           ///< [out, in] in the model's precision
  at::Tensor bias;                             ///< [out], or undefined
  std::shared_ptr<const StoredMatrix> stored;  ///< in place of `weight`: as the file has it

  /// @param x  [rows, in] of the weight's dtype, or any under autocast
  /// @return   [rows, out]
  at::Tensor operator()(const at::Tensor& x) const;
};

/// Linear layers of one input as one, outputs in their order; either all have biases or none has.
/// The weight is a view if those of the parts lie one after another in memory, else a copy.
Linear joined(std::initializer_list<const Linear*> parts);

/// The outputs of several linear layers of one input. One product if they lie one after another in
/// memory and no gradient of them is needed.
std::vector<at::Tensor> products(const at::Tensor& x, std::initializer_list<const Linear*> parts);

/// The dtype of a product with `x`: that of autocast where it is on.
at::ScalarType product_type(const at::Tensor& x);

}  // namespace forerun
