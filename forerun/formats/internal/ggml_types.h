#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "forerun/formats/tensor_view.h"

namespace forerun::internal {

/// The stored type with GGML's number `id`; none if forerun does not read it.
std::optional<DType> dtype_of_ggml(std::uint32_t id) noexcept;

/// GGML's own name for a type number, read here or not; empty if unknown.
/// Source: enum ggml_type in ggml.h of ggml-org/ggml.
std::string_view ggml_type_name(std::uint32_t id) noexcept;

}  // namespace forerun::internal
