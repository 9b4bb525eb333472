#include "forerun/tensor/cpu/bf16_matrix.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "forerun/formats/half.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun {

Bf16Matrix Bf16Matrix::pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena) {
  Bf16Matrix m;
  m.outputs_ = weight.size(0);
  m.inputs_ = weight.size(1);
  if (m.inputs_ % 2 != 0)
    throw std::invalid_argument("bf16 products need an even number of inputs");
  const std::int64_t columns = m.columns();
  m.data_ = arena.make<std::uint16_t>(static_cast<std::size_t>(columns * m.inputs_));
  const at::Tensor rows = weight.detach().to(at::kFloat).contiguous();
  const auto* w = rows.const_data_ptr<float>();
  for (std::int64_t j = 0; j < m.outputs_; ++j) {
    const std::int64_t panel = j / kPanel, width = std::min(kPanel, columns - panel * kPanel);
    std::uint16_t* to = m.data_.get() + panel * kPanel * m.inputs_ + j % kPanel * 2;
    for (std::int64_t i = 0; i < m.inputs_; ++i) {
      to[i / 2 * 2 * width + i % 2] = bf16_of_float(w[j * m.inputs_ + i]);
    }
  }
  if (bias.defined()) {
    m.bias_ = arena.make<float>(static_cast<std::size_t>(columns));
    const at::Tensor values = bias.detach().to(at::kFloat).contiguous();
    std::copy_n(values.const_data_ptr<float>(), m.outputs_, m.bias_.get());
  }
  return m;
}

void Bf16Matrix::multiply(std::int64_t first, std::int64_t last, const Rows& rows, bool add) const {
  const auto product = kernels().pair_product;
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t width = std::min(kPanel, columns() - p * kPanel);
    product({.a = rows.in,
             .a_stride = rows.in_stride,
             .b = data_.get() + p * kPanel * inputs_,
             .b_stride = 2 * width,
             .c = rows.out + p * kPanel,
             .c_stride = rows.out_stride,
             .rows = rows.rows,
             .pairs = inputs_ / 2,
             .columns = width,
             .add = add,
             .next = nullptr,
             .start = bias_ ? bias_.get() + p * kPanel : nullptr});
  }
}

}  // namespace forerun
