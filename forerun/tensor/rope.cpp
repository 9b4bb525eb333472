#include "forerun/tensor/rope.h"

#include <ATen/ATen.h>

#include <cmath>

#include "forerun/tensor/internal/rows.h"

namespace forerun {

at::Tensor document_positions(std::span<const std::int64_t> lengths) {
  std::vector<at::Tensor> out = {at::empty({0}, at::kLong)};
  for (const std::int64_t n : lengths) out.push_back(at::arange(n, at::kLong));
  return at::cat(out);
}

double QueryGrowth::at(std::int64_t position) const noexcept {
  return none() ? 1.0
                : 1.0 + beta * std::log1p(std::floor(static_cast<double>(position) / context));
}

Rope::Rope(const std::vector<float>& f, double s, const QueryGrowth& g)
    : inverse_frequencies(at::tensor(f, at::kFloat)), size(s), growth(g) {}

Rotation Rope::at(const at::Tensor& positions, at::ScalarType network) const {
  const at::Tensor angles =
      at::outer(positions.to(at::kFloat), inverse_frequencies.to(positions.device())).unsqueeze(1);
  const auto type = network == at::kDouble ? at::kDouble : at::kFloat;
  Rotation out{.cos = angles.cos().to(type), .sin = angles.sin().to(type), .growth = {}};
  if (size != 1.0) {
    out.cos = out.cos * size;
    out.sin = out.sin * size;
  }
  if (!growth.none()) {
    out.growth = positions.to(at::kDouble)
                     .div(growth.context)
                     .floor()
                     .log1p()
                     .mul(growth.beta)
                     .add(1.0)
                     .to(type)
                     .view({-1, 1, 1});
  }
  return out;
}

at::Tensor Rotation::grown(const at::Tensor& queries) const {
  return growth.defined() ? queries * growth.to(queries.scalar_type()) : queries;
}

at::Tensor Rotation::operator()(const at::Tensor& x) const {
  if (!cos.defined()) return x;
  const std::int64_t half = cos.size(-1), rest = x.size(-1) - 2 * half;
  const at::Tensor wide = internal::wide(x);
  const at::Tensor a = wide.narrow(-1, 0, half);
  const at::Tensor b = wide.narrow(-1, half, half);
  std::vector<at::Tensor> parts = {a * cos - b * sin, b * cos + a * sin};
  if (rest > 0) parts.push_back(wide.narrow(-1, 2 * half, rest));
  return at::cat(parts, -1).to(x.scalar_type());
}

}  // namespace forerun
