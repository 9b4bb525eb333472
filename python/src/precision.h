#pragma once

#include <forerun/common.h>

#include <string>

namespace forerun::python {

/// "auto", or the name of a precision. @throws UsageError  another name
inline PrecisionRequest precision_request(const std::string& name) {
  if (name == "auto") return kAutoPrecision;
  if (const auto precision = precision_from_name(name)) return *precision;
  throw UsageError("precision: no '" + name + "'; use auto, int8, int4, bf16, f32 or file");
}

}  // namespace forerun::python
