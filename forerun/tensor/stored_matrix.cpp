#include "forerun/tensor/stored_matrix.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forerun/formats/dequantize.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

// Rows that are unpacked together: about a megabyte, which a second-level cache holds.
std::int64_t panel_rows(std::int64_t columns) {
  constexpr std::int64_t kValues = 1 << 18, kLeast = 8, kMost = 256;
  return std::clamp(kValues / columns, kLeast, kMost);
}

}  // namespace

StoredMatrix::StoredMatrix(const TensorView& view, RowMap order, std::shared_ptr<const void> memory)
    : dtype_(view.dtype), bytes_(view.bytes), order_(std::move(order)), memory_(std::move(memory)) {
  if (view.shape.size() != 2 || view.shape[0] < 1 || view.shape[1] < 1 ||
      !holds_weights(view.dtype)) {
    throw std::invalid_argument(
        fmt::format("tensor '{}' of {} is no matrix of weights", view.name, name_of(view.dtype)));
  }
  rows_ = view.shape[0];
  columns_ = view.shape[1];
  if (columns_ % block_size(dtype_) != 0) {
    throw std::invalid_argument(fmt::format("tensor '{}': rows of {} are not whole {} blocks",
                                            view.name, columns_, name_of(dtype_)));
  }
  row_bytes_ = bytes_.size() / static_cast<std::size_t>(rows_);
  if (memory_ == nullptr) {
    throw std::invalid_argument(
        fmt::format("tensor '{}': nothing keeps its file mapped", view.name));
  }
}

void StoredMatrix::unpack(std::int64_t first, std::int64_t count, float* out) const {
  const auto width = static_cast<std::size_t>(columns_);
  if (!order_) {
    const auto rows = static_cast<std::size_t>(count);
    const auto from = bytes_.subspan(static_cast<std::size_t>(first) * row_bytes_);
    return dequantize(dtype_, from.first(rows * row_bytes_), {out, rows * width});
  }
  for (std::int64_t r = 0; r < count; ++r) {
    dequantize(dtype_, row(first + r), {out + r * columns_, width});
  }
}

at::Tensor StoredMatrix::unpacked() const {
  at::Tensor out = at::empty({rows_, columns_}, at::kFloat);
  parallel_for(0, rows_, 64, [&](std::int64_t begin, std::int64_t end) {
    unpack(begin, end - begin, out.data_ptr<float>() + begin * columns_);
  });
  return out;
}

at::Tensor StoredMatrix::multiply(const at::Tensor& x) const {
  const at::Tensor in = x.to(at::kFloat).contiguous();
  at::Tensor out = at::empty({in.size(0), rows_}, at::kFloat);
  if (in.size(0) == 0) return out;
  const std::int64_t panel = panel_rows(columns_), panels = (rows_ + panel - 1) / panel;
  parallel_for(0, panels, 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode no_autograd;  // of this thread
    const at::Tensor unpacked = at::empty({panel, columns_}, at::kFloat);
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t first = p * panel, count = std::min(panel, rows_ - first);
      unpack(first, count, unpacked.data_ptr<float>());
      at::Tensor part = out.narrow(1, first, count);
      at::mm_out(part, in, unpacked.narrow(0, 0, count).t());
    }
  });
  return out;
}

at::Tensor StoredMatrix::select(const at::Tensor& ids) const {
  const at::Tensor rows = ids.contiguous();
  const std::int64_t n = rows.numel();
  at::Tensor out = at::empty({n, columns_}, at::kFloat);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = rows.const_data_ptr<std::int64_t>()[i];
    if (row < 0 || row >= rows_) {
      throw std::invalid_argument(fmt::format("row {} of a matrix of {}", row, rows_));
    }
    unpack(row, 1, out.data_ptr<float>() + i * columns_);
  }
  return out;
}

}  // namespace forerun
