#include "forerun/models/internal/padded_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace forerun::internal {

PaddedRows::PaddedRows(std::span<const std::int64_t> lengths, const at::Device& device,
                       std::int64_t multiple)
    : groups_(static_cast<std::int64_t>(lengths.size())), length_(0) {
  for (const std::int64_t n : lengths) length_ = std::max(length_, n);
  length_ = (length_ + multiple - 1) / multiple * multiple;
  std::vector<std::int64_t> from(static_cast<std::size_t>(groups_ * length_), 0), to;
  std::int64_t row = 0;
  for (std::int64_t g = 0; g < groups_; ++g) {
    for (std::int64_t i = 0; i < lengths[static_cast<std::size_t>(g)]; ++i) {
      const std::int64_t place = g * length_ + i;
      from[static_cast<std::size_t>(place)] = row++;
      to.push_back(place);
    }
  }
  from_ = at::tensor(from, at::kLong).to(device);
  to_ = at::tensor(to, at::kLong).to(device);
}

at::Tensor PaddedRows::pad(const at::Tensor& x) const {
  std::vector<std::int64_t> sizes = {groups_, length_};
  for (const std::int64_t n : x.sizes().slice(1)) sizes.push_back(n);
  return x.index_select(0, from_).view(sizes);
}

at::Tensor PaddedRows::unpad(const at::Tensor& x) const {
  return x.flatten(0, 1).index_select(0, to_);
}

}  // namespace forerun::internal
