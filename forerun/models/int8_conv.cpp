#include "forerun/models/int8_conv.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "forerun/models/int8_block.h"

namespace forerun {

Int8Conv Int8Conv::pack(const DynamicConv& conv, const BlockConfig& c, Arena& arena) {
  Int8Conv out;
  if (!conv.defined()) return out;
  out.projection_ = Int8Matrix::pack(plain_values(conv.projection), {}, arena);
  out.base_ = plain_values(conv.base);
  out.taps_ = c.conv_taps;
  out.hidden_ = c.hidden;
  out.group_ = c.conv_group;
  return out;
}

void Int8Conv::row(std::int64_t side, const float* x, std::int64_t place, const float* deltas,
                   float* out) const {
  const std::int64_t groups = hidden_ / group_;
  const float* base = base_.const_data_ptr<float>() + side * taps_ * hidden_;
  const float* delta = deltas + side * taps_ * groups;
  for (std::int64_t o = 0; o < std::min(taps_, place + 1); ++o) {
    const float* from = x - o * hidden_;
    for (std::int64_t g = 0; g < groups; ++g) {
      const float more = delta[o * groups + g];
      for (std::int64_t j = g * group_; j < (g + 1) * group_; ++j) {
        const float term = (base[o * hidden_ + j] + more) * from[j];
        out[j] = o == 0 ? term : out[j] + term;
      }
    }
  }
}

}  // namespace forerun
