#include "forerun/tensor/linear.h"

#include <ATen/ATen.h>

namespace forerun {

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

}  // namespace forerun
