#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "forerun/tensor/internal/row_math.h"

/// Types and devices of the fused operations. Rows of bfloat16 are computed in float32.
namespace forerun::internal {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

/// Devices and types that the loops support; elsewhere ATen's operations do the same.
inline bool has_kernel(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble ||
                        x.scalar_type() == at::kBFloat16);
}

/// f(type_tag) with the C++ type of a tensor of float64, float32 or bfloat16.
template <class F>
void with_type(at::ScalarType type, F&& f) {
  if (type == at::kDouble) {
    f(double{});
  } else if (type == at::kFloat) {
    f(float{});
  } else {
    f(c10::BFloat16{});
  }
}

/// f(type_tag, type_tag) with the types of the computation and of the next product's input, which
/// may be bfloat16; float64 has float64 for both.
template <class F>
void with_types(at::ScalarType x, at::ScalarType y, F&& f) {
  with_type(x, [&](auto a) {
    using X = decltype(a);
    if constexpr (std::is_same_v<X, double>) {
      f(X{}, double{});
    } else if (y == at::kBFloat16) {
      f(X{}, c10::BFloat16{});
    } else {
      f(X{}, float{});
    }
  });
}

template <class T>
void load_row(const T* from, std::int64_t n, Wide<T>* to) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    load_row(&from->x, n, to);
  } else {
    std::copy(from, from + n, to);
  }
}

template <class T>
void store_row(const Wide<T>* from, std::int64_t n, T* to) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    store_row(from, n, &to->x);
  } else {
    std::copy(from, from + n, to);
  }
}

}  // namespace forerun::internal
