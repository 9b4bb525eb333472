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
  const bool groups = width % kernel::kGroup == 0;
  return {values_.room_for(values),
          scales_.room_for(n),
          width,
          rows > 1 && kernels().needs_halves ? halves_.room_for(values) : nullptr,
          far,
          groups ? groups_.room_for(values / kernel::kGroup) : nullptr};
}

namespace {

void check_inputs(std::int64_t inputs) {
  if (inputs > Int8Matrix::kMostInputs) {
    throw std::invalid_argument(
        "products of bytes take at most 65536 inputs; use another precision");
  }
}

// Output `column` of 16 in a group.
void put_group(const FourBitGroup& from, std::int64_t column, kernel::Int4Group& to) {
  to.scale[column] = c10::Half(from.scale).x;
  to.least[column] = c10::Half(from.least).x;
  for (std::size_t i = 0; i < kernel::kGroup; ++i) {
    std::uint8_t& both = to.codes[i / 8][column][i % 4];
    both = static_cast<std::uint8_t>(both | from.codes[i] << (i % 8 < 4 ? 0 : 4));
  }
}

}  // namespace

void Int8Matrix::keep_bias(const at::Tensor& bias, Arena& arena) {
  if (!bias.defined()) return;
  bias_ = arena.make<float>(static_cast<std::size_t>(panels() * kPanel));
  std::copy_n(bias.const_data_ptr<float>(), outputs_, bias_.get());
}

Int8Matrix Int8Matrix::pack_groups(std::int64_t outputs, std::int64_t inputs,
                                   const GroupsOf& groups, LevelKind kind, const at::Tensor& bias,
                                   Arena& arena) {
  check_inputs(inputs);
  Int8Matrix m;
  m.outputs_ = outputs;
  m.inputs_ = inputs;
  m.grouped_ = true;
  m.kind_ = kind;
  m.data_ = arena.make<std::uint8_t>(static_cast<std::size_t>(m.bytes()));
  constexpr std::int64_t kVectors = kPanel / 16;
  parallel_for(0, m.panels(), 8, [&](std::int64_t begin, std::int64_t end) {
    std::vector<FourBitGroup> row(static_cast<std::size_t>(inputs / kernel::kGroup));
    for (std::int64_t p = begin; p < end; ++p) {
      std::uint8_t* const bytes = m.data_.get() + p * m.panel_bytes();
      std::fill_n(bytes, m.panel_bytes(), std::uint8_t{0});
      auto* const panel = reinterpret_cast<kernel::Int4Group*>(bytes);
      for (std::int64_t j = 0; j < std::min(kPanel, outputs - p * kPanel); ++j) {
        if (!groups(p * kPanel + j, row)) continue;
        for (std::size_t g = 0; g < row.size(); ++g) {
          put_group(row[g], j % 16, panel[kVectors * static_cast<std::int64_t>(g) + j / 16]);
        }
      }
    }
  });
  m.keep_bias(bias, arena);
  return m;
}

Int8Matrix Int8Matrix::pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena) {
  Int8Matrix m;
  m.outputs_ = weight.size(0);
  m.inputs_ = weight.size(1);
  check_inputs(m.inputs_);
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
  m.keep_bias(bias, arena);
  return m;
}

void Int8Matrix::multiply(std::int64_t first, std::int64_t last, const kernel::Int8Rows& x,
                          std::int64_t rows, float* out, std::int64_t stride, bool add,
                          const std::uint8_t* next) const {
  const kernel::Int8Panels bytes{data_.get(), scales_.get(), bias_.get(), x.width};
  const kernel::Int4Panels nibbles{data_.get(), bias_.get(), x.width, kind_ == LevelKind::kE2m1};
  const bool ahead = rows >= (grouped_ ? kernels().prefetched_rows4 : kernels().prefetched_rows);
  for (std::int64_t p = first; p < last; ++p) {
    const std::uint8_t* behind =
        ahead && p + 1 < panels() ? data_.get() + (p + 1) * panel_bytes() : nullptr;
    const std::uint8_t* after = p + 1 == last && next != nullptr ? next : behind;
    float* const to = out + (p - first) * kPanel;
    const std::int64_t width = std::min(kPanel, outputs_ - p * kPanel);
    if (grouped_) {
      kernels().int4_panel(nibbles, p, x, rows, to, stride, width, add, after);
    } else {
      kernels().int8_panel(bytes, p, x, rows, to, stride, width, add, after);
    }
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
