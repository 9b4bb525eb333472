#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace forerun::python {

namespace nb = nanobind;

/// Arguments: C-contiguous arrays on the CPU; others are converted.
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline std::span<const float> row(const Rows& a, std::size_t i) {
  return {a.data() + i * a.shape(1), a.shape(1)};
}

/// A NumPy array that owns the values.
template <class Value>
nb::ndarray<nb::numpy, Value> array(std::vector<Value> values,
                                    std::initializer_list<std::size_t> shape) {
  auto* kept = new std::vector<Value>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Value>*>(p); });
  return {kept->data(), shape, owner};
}

}  // namespace forerun::python
