#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

/// How numbers are stored in a file. The Q and IQ types and MXFP4 are GGML's block formats. I64,
/// I32 and BOOL hold ids and flags, never weights; of those after them only names and sizes are
/// known.
enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ2_K,
  kQ3_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kI64,
  kI32,
  kBool,
  kF64,
  kC64,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E8M0,
  kF6_E2M3,
  kF6_E3M2,
  kF4
};

/// A tensor inside a memory-mapped file; valid as long as the file object lives.
struct TensorView {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;   ///< row-major, outermost first (GGUF's order reversed)
  std::span<const std::byte> bytes;  ///< exactly the bytes of this tensor, checked against the file
};

std::string_view name_of(DType dtype) noexcept;

/// Whether weights are stored so that they can be read; false for whole numbers and flags, and for
/// what is not read.
bool holds_weights(DType dtype) noexcept;

/// Whether tensors of the type are read at all.
bool is_read(DType dtype) noexcept;

/// What is wrong with a tensor of the type where weights are expected, and what to do.
std::string why_no_weights(DType dtype);

/// Elements that are stored together: 1 for plain numbers, 32 or 256 for the Q and IQ types; 2 or 4
/// where numbers are smaller than a byte.
std::int64_t block_size(DType dtype) noexcept;

/// Bytes of one such block.
std::int64_t block_bytes(DType dtype) noexcept;

/// Bytes of `elements` numbers; none if negative, not whole blocks, or beyond int64.
std::optional<std::int64_t> byte_size(DType dtype, std::int64_t elements) noexcept;

/// Product of the dimensions (1 for none of them); none if one is negative or it goes beyond int64.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) noexcept;

}  // namespace forerun
