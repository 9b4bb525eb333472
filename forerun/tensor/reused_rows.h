#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forerun {

/// Results of passes, [rows, width] float32, in memory that is used again as soon as no tensor
/// holds it: the system clears the pages of every new allocation of this size.
class ReusedRows {
 public:
  /// Values are undefined: those of rows that were there before.
  at::Tensor take(std::int64_t rows, std::int64_t width);

 private:
  std::vector<at::Tensor> kept_;
};

}  // namespace forerun
