#include "forerun/formats/internal/ggml_types.h"

#include <array>

namespace forerun::internal {
namespace {

constexpr std::array<std::string_view, 42> kTypeNames{
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4", "Q1_0"};

}  // namespace

std::optional<DType> dtype_of_ggml(std::uint32_t id) noexcept {
  switch (id) {
    case 0:
      return DType::kF32;
    case 1:
      return DType::kF16;
    case 2:
      return DType::kQ4_0;
    case 3:
      return DType::kQ4_1;
    case 6:
      return DType::kQ5_0;
    case 7:
      return DType::kQ5_1;
    case 8:
      return DType::kQ8_0;
    case 10:
      return DType::kQ2_K;
    case 11:
      return DType::kQ3_K;
    case 12:
      return DType::kQ4_K;
    case 13:
      return DType::kQ5_K;
    case 14:
      return DType::kQ6_K;
    case 20:
      return DType::kIQ4_NL;
    case 23:
      return DType::kIQ4_XS;
    case 39:
      return DType::kMXFP4;
    case 30:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

std::string_view ggml_type_name(std::uint32_t id) noexcept {
  return id < kTypeNames.size() ? kTypeNames[id] : std::string_view();
}

}  // namespace forerun::internal
