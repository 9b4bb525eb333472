#pragma once

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/softmax.h"

namespace forerun::FORERUN_KERNELS {

using kernel::Seen;

namespace {

// The 16 keys from `first` on that are visible.
inline Mask in_sight(const Seen& seen, std::int64_t first) {
  const std::int64_t from = seen.begin > first ? seen.begin - first : 0;
  const std::int64_t to = seen.end - first;
  if (to <= from || from >= 16) return 0;
  return static_cast<Mask>(first_lanes(to) & ~((1U << from) - 1U));
}

inline bool whole(const Seen& seen, std::int64_t first) {
  return first >= seen.begin && first + 16 <= seen.end;
}

// 2^x for -126 <= x <= 0, relative error 4e-6.
inline Floats exp2_weight(Floats x) {
  const Floats magic = floats(12582912.0F);  // 1.5 * 2^23: adding it rounds
  const Floats shifted = x + magic;
  const Floats r = x - (shifted - magic);  // |r| <= 1/2
  Floats p = floats(0.00961812911F);
  p = fmadd(p, r, floats(0.0555041087F));
  p = fmadd(p, r, floats(0.240226507F));
  p = fmadd(p, r, floats(0.693147181F));
  p = fmadd(p, r, floats(1.0F));
  return from_bits(add(bits(p), left<23>(bits(shifted))));
}

}  // namespace

SoftmaxPart weigh_row(float* scores, float scale, const float* value_scales, const Seen& seen,
                      std::int64_t n, std::uint8_t* weights, float* unit) {
  const std::int64_t first = seen.begin & ~15LL;
  Floats most = floats(kNone);
  Mask nans = 0;
  for (std::int64_t i = first; i < seen.end; i += 16) {
    const Floats s = whole(seen, i) ? load(scores + i) : load(most, in_sight(seen, i), scores + i);
    nans |= nan(s);
    most = max(most, s);
  }
  const float top = largest(most);
  *unit = 0.0F;
  if (nans != 0 || top == kNone) {
    for (std::int64_t i = 0; i < n; i += 16) store_uint8(weights + i, ints(0));
    return nans != 0 ? SoftmaxPart{__builtin_nanf(""), __builtin_nanf("")}
                     : SoftmaxPart{kNone, 0.0F};
  }
  const Floats rate = floats(scale * 1.44269504F), shift = floats(top);
  const Floats lowest = floats(-126.0F);
  Floats total = floats(0.0F), most_weight = total;
  for (std::int64_t i = first; i < seen.end; i += 16) {
    const Mask m = whole(seen, i) ? static_cast<Mask>(0xffff) : in_sight(seen, i);
    const Floats x = (load(scores + i) - shift) * rate;
    const Floats e = exp2_weight(max(lowest, x));  // a NaN stays
    total = add(m, total, e);
    const Floats y = multiply(m, e, load(value_scales + i));
    most_weight = max(most_weight, y);
    store(scores + i, y);
  }
  // Sixteenths in bit-reversed order: neighbours are far apart, so a few keys average out.
  alignas(64) static constexpr float kPattern[16] = {0.5F, 8.5F,  4.5F, 12.5F, 2.5F, 10.5F,
                                                     6.5F, 14.5F, 1.5F, 9.5F,  5.5F, 13.5F,
                                                     3.5F, 11.5F, 7.5F, 15.5F};
  const Floats pattern = load(kPattern) * floats(1.0F / 16.0F);
  const float heaviest = largest(most_weight);
  *unit = heaviest / 255.0F;
  const Floats by = floats(heaviest > 1e-30F ? 255.0F / heaviest : 0.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const bool some = i + 16 > first && i < seen.end;  // zeros if nothing is visible
    const Floats y = some ? load(scores + i) : floats(0.0F);
    store_uint8(weights + i, truncated(fmadd(y, by, pattern)));
  }
  return {top * scale, sum(total)};
}

}  // namespace forerun::FORERUN_KERNELS
