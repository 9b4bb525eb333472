#pragma once

#include <bit>
#include <string>
#include <vector>

#include "forerun/formats/safetensors.h"
#include "forerun/formats/whole_numbers.h"

namespace forerun {

/// float64 values that a test file stores as their bits in int64, which our safetensors reader
/// supports.
inline std::vector<double> doubles_of(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw FormatError("no tensor " + name);
  if (view->dtype != DType::kI64) throw FormatError(name + " holds no bits of float64");
  std::vector<double> out;
  for (const std::int64_t bits : *whole_numbers(*view)) out.push_back(std::bit_cast<double>(bits));
  return out;
}

}  // namespace forerun
