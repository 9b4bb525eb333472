#include "forerun/formats/tensor_view.h"

#include <array>

namespace forerun {
namespace {

struct Layout {
  std::string_view name;
  std::int64_t elements;
  std::int64_t bytes;
};

// In the order of DType. Source of the block sizes: ggml-common.h of ggml-org/ggml.
constexpr std::array<Layout, 18> kLayouts{{{"F32", 1, 4},
                                           {"F16", 1, 2},
                                           {"BF16", 1, 2},
                                           {"Q8_0", 32, 34},
                                           {"Q4_0", 32, 18},
                                           {"Q4_1", 32, 20},
                                           {"Q5_0", 32, 22},
                                           {"Q5_1", 32, 24},
                                           {"Q4_K", 256, 144},
                                           {"Q5_K", 256, 176},
                                           {"Q6_K", 256, 210},
                                           {"Q2_K", 256, 84},
                                           {"Q3_K", 256, 110},
                                           {"IQ4_NL", 32, 18},
                                           {"IQ4_XS", 256, 136},
                                           {"I64", 1, 8},
                                           {"I32", 1, 4},
                                           {"BOOL", 1, 1}}};

const Layout& layout_of(DType dtype) noexcept { return kLayouts[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) noexcept { return layout_of(dtype).name; }

bool holds_weights(DType dtype) noexcept {
  return dtype != DType::kI64 && dtype != DType::kI32 && dtype != DType::kBool;
}

std::int64_t block_size(DType dtype) noexcept { return layout_of(dtype).elements; }

std::int64_t block_bytes(DType dtype) noexcept { return layout_of(dtype).bytes; }

std::optional<std::int64_t> byte_size(DType dtype, std::int64_t elements) noexcept {
  const Layout& layout = layout_of(dtype);
  if (elements < 0 || elements % layout.elements != 0) return std::nullopt;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / layout.elements, layout.bytes, &bytes)) return std::nullopt;
  return bytes;
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) noexcept {
  std::int64_t count = 1;
  bool has_zero = false;  // 0 x huge x huge is 0, in whatever order
  bool overflow = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    has_zero |= extent == 0;
    overflow |= __builtin_mul_overflow(count, extent, &count);
  }
  if (has_zero) return 0;
  return overflow ? std::nullopt : std::optional(count);
}

}  // namespace forerun
