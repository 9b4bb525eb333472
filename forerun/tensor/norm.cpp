#include "forerun/tensor/norm.h"

#include <ATen/ATen.h>

namespace forerun {

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, true).add_(eps));
  return wide.mul(scale).mul_(weight).to(x.scalar_type());
}

}  // namespace forerun
