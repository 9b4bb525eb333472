#include "forerun/formats/four_bit_groups.h"

#include <fmt/format.h>

#include <stdexcept>

#include "forerun/formats/internal/blocks.h"

namespace forerun {
namespace {

// 16 bytes: the lower four bits first, then the upper ones.
void halves(const std::uint8_t* bytes, FourBitGroup& out) {
  for (std::size_t i = 0; i < 16; ++i) {
    out.codes[i] = bytes[i] & 15;
    out.codes[16 + i] = bytes[i] >> 4;
  }
}

void q4_0(const std::uint8_t* block, FourBitGroup* out) {
  const float d = internal::load_f16(block);
  out->scale = d;
  out->least = -8.0F * d;
  halves(block + 2, *out);
}

void q4_1(const std::uint8_t* block, FourBitGroup* out) {
  out->scale = internal::load_f16(block);
  out->least = internal::load_f16(block + 2);
  halves(block + 4, *out);
}

void q4_k(const std::uint8_t* block, FourBitGroup* out) {
  const float d = internal::load_f16(block), dmin = internal::load_f16(block + 2);
  for (std::ptrdiff_t j = 0; j < 8; ++j) {
    const internal::ScaleMin of = internal::scale_min(block + 4, j);
    out[j].scale = d * of.scale;
    out[j].least = -(dmin * of.min);
    const std::uint8_t* nibbles = block + 16 + 32 * (j / 2);
    for (std::size_t i = 0; i < 32; ++i) {
      out[j].codes[i] = j % 2 == 0 ? nibbles[i] & 15 : nibbles[i] >> 4;
    }
  }
}

void mxfp4(const std::uint8_t* block, FourBitGroup* out) {
  out->scale = internal::half_e8m0(block[0]);
  out->least = -12.0F * out->scale;
  halves(block + 1, *out);
}

constexpr FourBitLevels kLinearLevels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr FourBitLevels kE2m1Levels = [] {
  FourBitLevels out{};
  for (std::size_t code = 0; code < out.size(); ++code) {
    out[code] = static_cast<std::uint8_t>(12 + internal::kE2m1Halves[code]);
  }
  return out;
}();

}  // namespace

const FourBitLevels& levels_of(LevelKind kind) noexcept {
  return kind == LevelKind::kE2m1 ? kE2m1Levels : kLinearLevels;
}

bool has_four_bit_groups(DType dtype) noexcept {
  return dtype == DType::kQ4_0 || dtype == DType::kQ4_1 || dtype == DType::kQ4_K ||
         dtype == DType::kMXFP4;
}

LevelKind kind_of_levels(DType dtype) noexcept {
  return dtype == DType::kMXFP4 ? LevelKind::kE2m1 : LevelKind::kLinear;
}

void four_bit_groups(DType dtype, std::span<const std::byte> src, std::span<FourBitGroup> dst) {
  if (!has_four_bit_groups(dtype)) {
    throw std::invalid_argument(
        fmt::format("{} is not stored in groups of 4-bit numbers", name_of(dtype)));
  }
  const auto bytes = static_cast<std::size_t>(block_bytes(dtype));
  const auto groups = static_cast<std::size_t>(block_size(dtype) / FourBitGroup::kNumbers);
  if (src.size() % bytes != 0 || dst.size() != src.size() / bytes * groups) {
    throw std::invalid_argument(fmt::format("{} bytes of {} to {} groups; pass whole blocks of {}",
                                            src.size(), name_of(dtype), dst.size(), bytes));
  }
  const auto decode = dtype == DType::kQ4_0   ? q4_0
                      : dtype == DType::kQ4_1 ? q4_1
                      : dtype == DType::kQ4_K ? q4_k
                                              : mxfp4;
  const auto* from = reinterpret_cast<const std::uint8_t*>(src.data());
  for (std::size_t i = 0; i * bytes < src.size(); ++i) {
    decode(from + i * bytes, dst.data() + i * groups);
  }
}

}  // namespace forerun
