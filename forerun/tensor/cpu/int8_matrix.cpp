#include "forerun/tensor/cpu/int8_matrix.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "forerun/tensor/cpu/quads.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {

using kernel::kPanel;

kernel::Int8Rows Int8Activations::room_for(std::int64_t rows, std::int64_t k, bool far) {
  const std::int64_t width = kernel::rotated_width(k);
  const auto n = static_cast<std::size_t>(rows);
  const std::size_t values = n * static_cast<std::size_t>(width);
  return {values_.room_for(values), scales_.room_for(n), width,
          rows > 1 && kernels().needs_halves ? halves_.room_for(values) : nullptr, far};
}

Int8Matrix Int8Matrix::pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena) {
  Int8Matrix m;
  m.outputs_ = weight.size(0);
  m.inputs_ = weight.size(1);
  if (m.inputs_ > kMostInputs) {
    throw std::invalid_argument("int8 products take at most 65536 inputs; use another precision");
  }
  const auto padded = static_cast<std::size_t>(m.panels() * kPanel);
  m.data_ = arena.make<std::uint8_t>(static_cast<std::size_t>(m.bytes()));
  m.scales_ = arena.make<float>(padded);
  const float* w = weight.const_data_ptr<float>();
  const std::int64_t width = kernel::rotated_width(m.inputs_);
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> rotated(static_cast<std::size_t>(width));
    std::vector<std::int8_t> rounded(static_cast<std::size_t>(width));
    for (std::int64_t p = begin; p < end; ++p) {
      std::uint8_t* panel = m.data_.get() + p * m.panel_bytes();
      std::fill(panel, panel + m.panel_bytes(), std::uint8_t{128});
      for (std::int64_t j = 0; j < std::min(kPanel, m.outputs_ - p * kPanel); ++j) {
        const std::int64_t row = p * kPanel + j;
        std::copy_n(w + row * m.inputs_, m.inputs_, rotated.begin());
        std::fill(rotated.begin() + m.inputs_, rotated.end(), 0.0F);
        kernels().rotate_row(rotated.data(), width);
        // NaN propagates by the scale to the logits, where it is reported.
        m.scales_.get()[row] = kernels().round_to_int8(rotated.data(), width, rounded.data()).scale;
        put_quads(rounded.data(), width, j, kPanel, panel);
      }
    }
  };
  parallel_for(0, m.panels(), 8, some);
  if (bias.defined()) {
    m.bias_ = arena.make<float>(padded);
    std::copy_n(bias.const_data_ptr<float>(), m.outputs_, m.bias_.get());
  }
  return m;
}

void Int8Matrix::multiply(std::int64_t first, std::int64_t last, const kernel::Int8Rows& x,
                          std::int64_t rows, float* out, std::int64_t stride, bool add,
                          const std::uint8_t* next) const {
  const kernel::Int8Panels w{data_.get(), scales_.get(), bias_.get(), x.width};
  const bool ahead = rows >= kernels().prefetched_rows;
  for (std::int64_t p = first; p < last; ++p) {
    const std::uint8_t* behind =
        ahead && p + 1 < panels() ? data_.get() + (p + 1) * panel_bytes() : nullptr;
    kernels().int8_panel(w, p, x, rows, out + (p - first) * kPanel, stride,
                         std::min(kPanel, outputs_ - p * kPanel), add,
                         p + 1 == last && next != nullptr ? next : behind);
  }
}

void Int8Matrix::multiply(ThreadTeam::Worker& worker, const kernel::Int8Rows& x, std::int64_t rows,
                          float* out, std::int64_t stride, bool add,
                          const std::uint8_t* next) const {
  const std::int64_t end = worker.own_end(panels());
  worker.each(panels(), 1, [&](std::int64_t first, std::int64_t last) {
    multiply(first, last, x, rows, out + first * kPanel, stride, add, last == end ? next : nullptr);
  });
}

}  // namespace forerun
