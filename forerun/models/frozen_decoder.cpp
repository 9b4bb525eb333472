#include "forerun/models/frozen_decoder.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <vector>

namespace forerun {
namespace {

// One matrix of several, which become views of its rows.
void join(const std::vector<Linear*>& parts) {
  std::vector<at::Tensor> matrices;
  for (const Linear* part : parts) matrices.push_back(part->weight);
  const at::Tensor whole = at::cat(matrices);
  std::int64_t row = 0;
  for (Linear* part : parts) {
    const std::int64_t rows = part->weight.size(0);
    part->weight = whole.narrow(0, row, rows);
    row += rows;
  }
}

}  // namespace

DecoderLm frozen_decoder(const DecoderLm& decoder, at::ScalarType matrices,
                         const at::Device& device) {
  if (!decoder.config.recurrent.none()) {
    throw std::invalid_argument(
        "training: a target with recurrent layers runs on the CPU alone, and is not trained: leave "
        "out the device");
  }
  DecoderLm out = decoder;
  out.precision = matrices == at::kBFloat16 ? Precision::kBF16 : Precision::kF32;
  for (const ModelWeight& w : weights(out)) {
    *w.tensor = w.tensor->detach().to(device, w.shape.size() == 2 ? matrices : at::kFloat, false,
                                      /*copy=*/true);
  }
  for (TransformerBlock& b : out.layers) {
    join({&b.q, &b.k, &b.v});
    if (b.experts.empty()) join({&b.gate, &b.up});
  }
  return out;
}

}  // namespace forerun
