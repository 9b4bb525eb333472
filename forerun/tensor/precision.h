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
/// kFile: weights stay as their file stores them, mapped, and are unpacked to float32 some rows at
/// a time in every pass: slow, for models that fit in no other form.
enum class Precision : std::uint8_t { kF32, kBF16, kInt8, kFile };

constexpr std::string_view name_of(Precision p) noexcept {
  switch (p) {
    case Precision::kF32:
      return "f32";
    case Precision::kBF16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
    case Precision::kFile:
      return "file";
  }
  return "?";
}
constexpr std::optional<Precision> precision_from_name(std::string_view name) noexcept {
  if (name == "f32") return Precision::kF32;
  if (name == "bf16") return Precision::kBF16;
  if (name == "int8") return Precision::kInt8;
  if (name == "file") return Precision::kFile;
  return std::nullopt;
}

}  // namespace forerun
#pragma GCC visibility pop
