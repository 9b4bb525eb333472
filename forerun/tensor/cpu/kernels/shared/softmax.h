#pragma once

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/vector_math.h"

namespace forerun::FORERUN_KERNELS {

using kernel::SoftmaxPart;

namespace {

constexpr float kNone = -__builtin_inff();

inline float exp1(float x) { return first_lane(exp(floats(x))); }

// exp(x) for x <= 0 as bf16 bits in the low halves: only these are kept, so a polynomial of degree
// 4 (4e-6) suffices.
inline Ints bf16_weight(Floats x) {
  x = max(floats(-110.0F), x);
  const Floats y = x * floats(1.44269504F);
  const Floats n = nearest(y);
  const Floats r = y - n;  // 2^r for |r| <= 1/2
  Floats p = floats(0.00961812911F);
  p = fmadd(p, r, floats(0.0555041087F));
  p = fmadd(p, r, floats(0.240226507F));
  p = fmadd(p, r, floats(0.693147181F));
  p = fmadd(p, r, floats(1.0F));
  return right<16>(add(bits(scaled(p, n)), ints(0x8000)));
}

}  // namespace

SoftmaxPart exp_row(const float* scores, std::int64_t n, std::uint16_t* p) {
  Floats most = floats(kNone);
  Mask nans = 0;
  for (std::int64_t i = 0; i < n; i += 16) {
    const Floats s = load(scores + i);
    nans |= nan(s);
    most = max(most, s);
  }
  if (nans != 0) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = 0x7fc0;
    return {__builtin_nanf(""), __builtin_nanf("")};
  }
  const float top = largest(most);
  if (top == kNone) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = 0;
    return {kNone, 0.0F};
  }
  Floats total = floats(0.0F);
  const Floats shift = floats(top);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Ints e = bf16_weight(load(scores + i) - shift);
    total = total + from_bits(left<16>(e));
    store(p + i, low_words(e));
  }
  return {top, sum(total)};
}

void merge_softmax(float* o, SoftmaxPart* total, const float* part_o, const SoftmaxPart& part,
                   std::int64_t n) {
  if (part.max == kNone) return;
  if (total->max == kNone) {
    for (std::int64_t i = 0; i < n; i += 16) {
      const Mask m = first_lanes(n - i);
      store(o + i, m, load(m, part_o + i));
    }
    *total = part;
    return;
  }
  const float top = total->max > part.max ? total->max : part.max;
  const float a = exp1(total->max - top), b = exp1(part.max - top);
  const Floats wide_a = floats(a), wide_b = floats(b);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats kept = load(m, o + i) * wide_a;
    store(o + i, m, fmadd(load(m, part_o + i), wide_b, kept));
  }
  *total = {top, total->sum * a + part.sum * b};
}

}  // namespace forerun::FORERUN_KERNELS
