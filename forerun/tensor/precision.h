#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forerun {

/// What weights and activations are computed in. Logits and couplings are float32 and up always.
enum class Precision : std::uint8_t { kF32, kBF16 };

constexpr std::string_view name_of(Precision p) noexcept {
  return p == Precision::kF32 ? "f32" : "bf16";
}
constexpr std::optional<Precision> precision_from_name(std::string_view name) noexcept {
  if (name == "f32") return Precision::kF32;
  if (name == "bf16") return Precision::kBF16;
  return std::nullopt;
}

}  // namespace forerun
