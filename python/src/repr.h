#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace forerun::python {

namespace nb = nanobind;

/// The representation of a text, of a long one its beginning.
inline nb::str shown(const std::string& text) {
  constexpr Py_ssize_t kMost = 80;
  const nb::str whole(text.data(), text.size());
  if (PyUnicode_GetLength(whole.ptr()) <= kMost) return nb::repr(whole);
  const auto begin = nb::steal<nb::str>(PyUnicode_Substring(whole.ptr(), 0, kMost));
  return nb::str("{}...").format(nb::repr(begin));
}

}  // namespace forerun::python
