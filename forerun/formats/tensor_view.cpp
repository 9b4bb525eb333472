#include "forerun/formats/tensor_view.h"

#include <fmt/format.h>

#include <array>

namespace forerun {
namespace {

struct Layout {
  std::string_view name;
  std::int64_t elements;
  std::int64_t bytes;
};

// In the order of DType. Source of the block sizes: ggml-common.h of ggml-org/ggml, and Dtype in
// tensor.rs of huggingface/safetensors.
constexpr std::array<Layout, 33> kLayouts{
    {{"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"Q8_0", 32, 34},
     {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
     {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},   {"Q2_K", 256, 84},
     {"Q3_K", 256, 110}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17},
     {"I64", 1, 8},      {"I32", 1, 4},      {"BOOL", 1, 1},       {"F64", 1, 8},
     {"C64", 1, 8},      {"I16", 1, 2},      {"I8", 1, 1},         {"U64", 1, 8},
     {"U32", 1, 4},      {"U16", 1, 2},      {"U8", 1, 1},         {"F8_E4M3", 1, 1},
     {"F8_E5M2", 1, 1},  {"F8_E8M0", 1, 1},  {"F6_E2M3", 4, 3},    {"F6_E3M2", 4, 3},
     {"F4", 2, 1}}};

const Layout& layout_of(DType dtype) noexcept { return kLayouts[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) noexcept { return layout_of(dtype).name; }

bool holds_weights(DType dtype) noexcept { return dtype < DType::kI64; }

bool is_read(DType dtype) noexcept { return dtype <= DType::kBool; }

std::string why_no_weights(DType dtype) {
  if (is_read(dtype)) {
    return fmt::format(
        "holds {} where weights are expected; the file is damaged or of another architecture",
        name_of(dtype));
  }
  return fmt::format(
      "is stored as {}, which forerun does not read; F32, F16 and BF16 are: take the unquantised "
      "weights, or a GGUF file of the model",
      name_of(dtype));
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
