#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/formats/tensor_view.h"

namespace forerun {

/// Decodes stored numbers to float32, bit for bit as the reference (Python package gguf,
/// quants.py). Works on any whole number of blocks and keeps no state, so threads may share one
/// tensor by rows.
/// @param src  n * block_bytes(dtype) bytes, n >= 0, at any alignment
/// @param dst  n * block_size(dtype) numbers, all overwritten; the caller's storage, so that a
/// large
///             tensor is decoded in place of use
/// @throws std::invalid_argument  `src` is not whole blocks, or `dst` has another number of
/// elements
void dequantize(DType dtype, std::span<const std::byte> src, std::span<float> dst);

/// The same numbers rounded to bfloat16 (nearest, ties to even; a NaN stays a NaN); `dst` holds the
/// bits.
void dequantize_bf16(DType dtype, std::span<const std::byte> src, std::span<std::uint16_t> dst);

}  // namespace forerun
