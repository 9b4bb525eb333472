#include "forerun/tensor/norm.h"

#include <ATen/ATen.h>

#include "forerun/tensor/fused.h"
#include "forerun/tensor/linear.h"

namespace forerun {

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, true).add_(eps));
  return wide.mul(scale).mul_(weight).to(x.scalar_type());
}

at::Tensor RmsNorm::fused(const at::Tensor& x) const {
  return fused_rms_norm(x, weight, eps, product_type(x));
}

}  // namespace forerun
