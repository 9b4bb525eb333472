#include "forerun/models/internal/padded_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "forerun/tensor/ids.h"

namespace forerun::internal {

PaddedRows::PaddedRows(std::span<const std::int64_t> lengths, const at::Device& device,
                       std::int64_t multiple)
    : groups_(static_cast<std::int64_t>(lengths.size())), length_(0) {
  for (const std::int64_t n : lengths) length_ = std::max(length_, n);
  length_ = (length_ + multiple - 1) / multiple * multiple;
  std::vector<std::int64_t> to;
  for (std::int64_t g = 0; g < groups_; ++g) {
    for (std::int64_t i = 0; i < lengths[static_cast<std::size_t>(g)]; ++i) {
      to.push_back(g * length_ + i);
    }
  }
  to_ = ids_on(device, to);
}

at::Tensor PaddedRows::pad(const at::Tensor& x) const {
  std::vector<std::int64_t> sizes = {groups_, length_};
  for (const std::int64_t n : x.sizes().slice(1)) sizes.push_back(n);
  std::vector<std::int64_t> flat = x.sizes().vec();
  flat[0] = groups_ * length_;
  return at::zeros(flat, x.options().requires_grad(false)).index_copy(0, to_, x).view(sizes);
}

at::Tensor PaddedRows::unpad(const at::Tensor& x) const {
  return x.flatten(0, 1).index_select(0, to_);
}

}  // namespace forerun::internal
