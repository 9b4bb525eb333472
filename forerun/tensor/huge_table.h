#pragma once

#include <ATen/core/Tensor.h>

namespace forerun {

/// A contiguous copy of a table whose rows are read here and there, in huge pages
/// (base/huge_pages.h).
at::Tensor huge_table(const at::Tensor& t, at::ScalarType type);

}  // namespace forerun
