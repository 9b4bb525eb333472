#include "forerun/tensor/rope.h"

#include <ATen/ATen.h>

#include "forerun/tensor/internal/rows.h"

namespace forerun {

at::Tensor document_positions(std::span<const std::int64_t> lengths) {
  std::vector<at::Tensor> out = {at::empty({0}, at::kLong)};
  for (const std::int64_t n : lengths) out.push_back(at::arange(n, at::kLong));
  return at::cat(out);
}

Rope::Rope(const std::vector<float>& f) : inverse_frequencies(at::tensor(f, at::kFloat)) {}

Rotation Rope::at(const at::Tensor& positions, at::ScalarType network) const {
  const at::Tensor angles =
      at::outer(positions.to(at::kFloat), inverse_frequencies.to(positions.device())).unsqueeze(1);
  const auto type = network == at::kDouble ? at::kDouble : at::kFloat;
  return {angles.cos().to(type), angles.sin().to(type)};
}

at::Tensor Rotation::operator()(const at::Tensor& x) const {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor wide = internal::wide(x);
  const at::Tensor a = wide.narrow(-1, 0, half);
  const at::Tensor b = wide.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1).to(x.scalar_type());
}

}  // namespace forerun
