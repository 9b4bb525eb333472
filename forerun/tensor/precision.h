#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default)
namespace forerun {

/// What weights and activations are computed in. Logits and couplings are always at least float32.
/// kInt8: weights, activations, queries, keys and values in int8, rotated by Hadamard matrices, one
/// scale an output, row, or position and head; attention weights in 8 bits; everything else in
/// float32.
/// kInt4: as kInt8, but matrices of layers that their file stores in groups of 4-bit numbers
/// (Q4_0, Q4_1, Q4_K, MXFP4) keep these, queries, keys and values together or not at all, as gates
/// and ups; their inputs are int8 with one scale for 32 values.
/// kFile: weights stay as their file stores them, mapped, and are unpacked to float32 some rows at
/// a time in every pass: slow, for models that fit in no other form.
enum class Precision : std::uint8_t { kF32, kBF16, kInt8, kInt4, kFile };

/// Whether the int8 engine computes it.
constexpr bool has_int8_products(Precision p) noexcept {
  return p == Precision::kInt8 || p == Precision::kInt4;
}

constexpr std::string_view name_of(Precision p) noexcept {
  switch (p) {
    case Precision::kF32:
      return "f32";
    case Precision::kBF16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
    case Precision::kInt4:
      return "int4";
    case Precision::kFile:
      return "file";
  }
  return "?";
}
constexpr std::optional<Precision> precision_from_name(std::string_view name) noexcept {
  if (name == "f32") return Precision::kF32;
  if (name == "bf16") return Precision::kBF16;
  if (name == "int8") return Precision::kInt8;
  if (name == "int4") return Precision::kInt4;
  if (name == "file") return Precision::kFile;
  return std::nullopt;
}

}  // namespace forerun
#pragma GCC visibility pop
