#pragma once

#include <cstdint>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/tensor_view.h"

namespace forerun {

/// The ids or flags of a tensor of I64, I32 or BOOL, row-major; a flag is 0 or 1.
/// Errors: weights; a flag that is neither. The message names the tensor.
Result<std::vector<std::int64_t>> whole_numbers(const TensorView& tensor);

}  // namespace forerun
