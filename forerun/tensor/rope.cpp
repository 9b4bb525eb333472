#include "forerun/tensor/rope.h"

#include <ATen/ATen.h>

namespace forerun {

Rope::Rope(const std::vector<float>& f) : inverse_frequencies(at::tensor(f, at::kFloat)) {}

Rotation Rope::at(const at::Tensor& positions) const {
  const at::Tensor angles = at::outer(positions.to(at::kFloat), inverse_frequencies).unsqueeze(1);
  return {angles.cos(), angles.sin()};
}

at::Tensor Rotation::operator()(const at::Tensor& x) const {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor a = wide.narrow(-1, 0, half);
  const at::Tensor b = wide.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1).to(x.scalar_type());
}

}  // namespace forerun
