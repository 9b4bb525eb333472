#include "forerun/tensor/cpu/rows/row_matrix.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>

#include "forerun/formats/half.h"

namespace forerun {

RowMatrix RowMatrix::pack(const Linear& layer) {
  constexpr std::int64_t kPanel = rows::kPanel;
  const at::Tensor weight = layer.weight.detach().to(at::kFloat).contiguous();
  RowMatrix m;
  m.outputs_ = weight.size(0);
  m.inputs_ = weight.size(1);
  m.panels_ = (m.outputs_ + kPanel - 1) / kPanel;
  m.half_ = weight.to(at::kBFloat16).to(at::kFloat).equal(weight);
  m.bias_.assign(static_cast<std::size_t>(m.columns()), 0.0F);
  const at::Tensor bias = layer.bias.detach().to(at::kFloat).contiguous();
  std::copy_n(bias.const_data_ptr<float>(), m.outputs_, m.bias_.begin());
  const auto values = static_cast<std::size_t>(m.columns() * m.inputs_);
  m.weights_ = AlignedBuffer<std::uint16_t>(m.half_ ? values : 2 * values);
  const float* const from = weight.const_data_ptr<float>();
  for (std::int64_t o = 0; o < m.outputs_; ++o) {
    for (std::int64_t k = 0; k < m.inputs_; ++k) {
      const std::int64_t of_panel = (o / kPanel * m.inputs_ + k) * kPanel, j = o % kPanel;
      const float w = from[o * m.inputs_ + k];
      if (m.half_) {
        // Pairs of outputs j and j + 8 in a word, which its two halves unpack from.
        m.weights_.data()[of_panel + j % (kPanel / 2) * 2 + j / (kPanel / 2)] = bf16_of_float(w);
      } else {
        reinterpret_cast<float*>(m.weights_.data())[of_panel + j] = w;
      }
    }
  }
  return m;
}

RowMatrix RowMatrix::pack(std::span<const Linear* const> layers) {
  std::vector<at::Tensor> weights, biases;
  for (const Linear* layer : layers) {
    if (layer->weight.size(0) % rows::kPanel != 0 ||
        layer->weight.size(1) != layers[0]->weight.size(1)) {
      throw std::invalid_argument(fmt::format(
          "layers of [{}, {}] and [{}, {}] cannot be packed as one", layers[0]->weight.size(0),
          layers[0]->weight.size(1), layer->weight.size(0), layer->weight.size(1)));
    }
    weights.push_back(layer->weight);
    biases.push_back(layer->bias);
  }
  return pack(Linear{at::cat(weights), at::cat(biases)});
}

void RowMatrix::multiply(const Rows& r, std::int64_t first_panel, std::int64_t last_panel) const {
  rows::kernels().product({.weights = weights_.data(),
                           .half = half_,
                           .bias = bias_.data(),
                           .inputs = inputs_,
                           .first_panel = first_panel,
                           .last_panel = last_panel,
                           .in = r.in,
                           .in_stride = r.in_stride,
                           .out = r.out,
                           .out_stride = r.out_stride,
                           .rows = r.rows});
}

}  // namespace forerun
