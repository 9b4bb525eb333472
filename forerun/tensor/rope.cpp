#include "forerun/tensor/rope.h"

#include <ATen/ATen.h>

namespace forerun {

RopeTable::RopeTable(const std::vector<float>& inverse_frequencies, std::int64_t positions) {
  const at::Tensor f = at::tensor(inverse_frequencies, at::kFloat);
  const at::Tensor angles = at::outer(at::arange(positions, at::kFloat), f);
  cos = angles.cos();
  sin = angles.sin();
}

at::Tensor RopeTable::rotate(const at::Tensor& x, const at::Tensor& positions) const {
  const at::Tensor c = cos.index_select(0, positions).unsqueeze(1);
  const at::Tensor s = sin.index_select(0, positions).unsqueeze(1);
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor a = wide.narrow(-1, 0, half);
  const at::Tensor b = wide.narrow(-1, half, half);
  return at::cat({a * c - b * s, b * c + a * s}, -1).to(x.scalar_type());
}

}  // namespace forerun
