#include "forerun/models/mar/packed_block.h"

#include <ATen/ATen.h>

namespace forerun {

std::vector<float> packed_values(const at::Tensor& x) {
  const at::Tensor flat = x.detach().to(at::kFloat).contiguous();
  const float* const p = flat.const_data_ptr<float>();
  return {p, p + flat.numel()};
}

PackedBlock::PackedBlock(const MarBlock& b)
    : norm1_weight(packed_values(b.norm1.weight)),
      norm1_bias(packed_values(b.norm1.bias)),
      norm2_weight(packed_values(b.norm2.weight)),
      norm2_bias(packed_values(b.norm2.bias)),
      qkv(RowMatrix::pack(b.qkv)),
      out(RowMatrix::pack(b.out)),
      up(RowMatrix::pack(b.up)),
      down(RowMatrix::pack(b.down)) {}

}  // namespace forerun
