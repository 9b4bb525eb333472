#include "forerun/tensor/cpu/full_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun {
namespace {

constexpr std::int64_t kQueries = 48;  // queries at a time: their scores fit the cache

std::int64_t up_to(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

template <class T>
T* zeroed(AlignedBuffer<T>& buffer, std::int64_t n) {
  T* const at = buffer.room_for(static_cast<std::size_t>(n));
  std::memset(static_cast<void*>(at), 0, static_cast<std::size_t>(n) * sizeof(T));
  return at;
}

}  // namespace

void FullAttention::room_for(Shape s) {
  if (s.tokens == shape_.tokens && s.heads == shape_.heads && s.head_dim == shape_.head_dim) return;
  shape_ = s;
  keys_ = up_to(s.tokens, 16);
  dim_ = up_to(s.head_dim, 2);
  columns_ = up_to(s.head_dim, 16);
  // Padding is never written again.
  zeroed(q_, s.tokens * dim_);
  zeroed(k_, dim_ * keys_);
  zeroed(v_, keys_ * columns_);
  zeroed(zeros_, s.head_dim);
  weights_.room_for(static_cast<std::size_t>(std::max(kQueries * keys_, dim_)));
  scores_.room_for(static_cast<std::size_t>(kQueries * keys_));
  out_.room_for(static_cast<std::size_t>(kQueries * columns_));
}

// Queries as they are; keys as [dim / 2][keys][2]; values as [keys / 2][dim][2].
void FullAttention::load_head(const float* qkv, std::int64_t stride, std::int64_t head) {
  const auto [tokens, heads, dim] = shape_;
  const float* q = qkv + head * dim;
  const float *k = q + heads * dim, *v = k + heads * dim;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  std::uint16_t* const row = weights_.data();  // free until the scores are computed
  for (std::int64_t t = 0; t < tokens; ++t) {
    kernels().round_to_bf16(q + t * stride, dim, scale, q_.data() + t * dim_);
    row[dim_ - 1] = 0;
    kernels().round_to_bf16(k + t * stride, dim, 1.0F, row);
    std::uint16_t* to = k_.data() + 2 * t;
    for (std::int64_t j = 0; j < dim_; j += 2, to += 2 * keys_) std::memcpy(to, row + j, 4);
  }
  for (std::int64_t t = 0; t < tokens; t += 2) {
    const float* const odd = t + 1 < tokens ? v + (t + 1) * stride : zeros_.data();
    kernels().pair_rows(v + t * stride, odd, dim, v_.data() + t * columns_);
  }
}

void FullAttention::run(const float* qkv, std::int64_t stride, std::uint16_t* out) {
  const auto product = kernels().pair_product;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const auto [tokens, heads, dim] = shape_;
  for (std::int64_t head = 0; head < heads; ++head) {
    load_head(qkv, stride, head);
    for (std::int64_t first = 0; first < tokens; first += kQueries) {
      const std::int64_t rows = std::min(kQueries, tokens - first);
      product({.a = q_.data() + first * dim_,
               .a_stride = dim_,
               .b = k_.data(),
               .b_stride = 2 * keys_,
               .c = scores_.data(),
               .c_stride = keys_,
               .rows = rows,
               .pairs = dim_ / 2,
               .columns = keys_,
               .add = false,
               .next = nullptr});
      float sums[kQueries];
      for (std::int64_t r = 0; r < rows; ++r) {
        float* const scores = scores_.data() + r * keys_;
        std::fill(scores + tokens, scores + keys_, kHidden);
        sums[r] = kernels().exp_row(scores, keys_, weights_.data() + r * keys_).sum;
      }
      product({.a = weights_.data(),
               .a_stride = keys_,
               .b = v_.data(),
               .b_stride = 2 * columns_,
               .c = out_.data(),
               .c_stride = columns_,
               .rows = rows,
               .pairs = keys_ / 2,
               .columns = columns_,
               .add = false,
               .next = nullptr});
      for (std::int64_t r = 0; r < rows; ++r) {
        kernels().round_to_bf16(out_.data() + r * columns_, dim, 1.0F / sums[r],
                                out + (first + r) * heads * dim + head * dim);
      }
    }
  }
}

}  // namespace forerun
