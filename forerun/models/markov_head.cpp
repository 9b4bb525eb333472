#include "forerun/models/markov_head.h"

#include <ATen/ATen.h>

#include <array>
#include <cstddef>
#include <numeric>

#include "forerun/models/int8_block.h"
#include "forerun/tensor/cpu/arena.h"

namespace forerun {
namespace {

float dot(std::span<const float> a, const float* b) {
  std::array<float, 16> sums{};  // side by side, so that the loop vectorises
  std::size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size()) {
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

}  // namespace

MarkovHead::MarkovHead(const at::Tensor& w1, const at::Tensor& w2, Precision precision) {
  if (!w1.defined()) return;
  w1_ = plain_values(w1);
  w2_ = plain_values(w2);
  if (precision != Precision::kInt8) return;
  Arena arena(std::size_t{16} << 20);
  int8_ = Int8Matrix::pack(w2_, {}, arena);
}

std::span<const float> MarkovHead::before(Token previous) const {
  const auto rank = static_cast<std::size_t>(w1_.size(1));
  return {w1_.const_data_ptr<float>() + static_cast<std::size_t>(previous) * rank, rank};
}

void MarkovHead::add(Token previous, std::span<float> logits) const {
  const std::span<const float> from = before(previous);
  const auto rank = static_cast<std::int64_t>(from.size());
  if (int8_.outputs() > 0) {
    thread_local Int8Activations activations;
    thread_local AlignedBuffer<float> work;
    const kernel::Int8Rows x = activations.room_for(1, rank);
    kernels().quantize_row(from.data(), rank, x, 0,
                           work.room_for(static_cast<std::size_t>(x.width)));
    int8_.multiply(0, int8_.panels(), x, 1, logits.data(), int8_.outputs(), true);
    return;
  }
  const float* to = w2_.const_data_ptr<float>();
  for (float& logit : logits) {
    logit += dot(from, to);
    to += rank;
  }
}

void MarkovHead::add(Token previous, std::span<const std::int32_t> ids,
                     std::span<float> add) const {
  const std::span<const float> from = before(previous);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(ids[i]) * from.size();
    add[i] += dot(from, w2_.const_data_ptr<float>() + row);
  }
}

}  // namespace forerun
