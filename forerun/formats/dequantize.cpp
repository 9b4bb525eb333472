#include "forerun/formats/dequantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "forerun/formats/internal/blocks.h"

namespace forerun {
namespace {

template <class Block>
void decode_blocks(std::span<const std::byte> src, std::span<float> dst) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(src.data());
  const std::size_t count = src.size() / Block::kBytes;
  for (std::size_t i = 0; i < count; ++i) {
    Block::decode(from + i * Block::kBytes, dst.data() + i * Block::kElements);
  }
}

void check_sizes(DType dtype, std::size_t bytes, std::size_t elements) {
  if (!holds_weights(dtype)) {
    throw std::invalid_argument(
        fmt::format("dequantize: {} holds ids or flags, no weights; read it with whole_numbers",
                    name_of(dtype)));
  }
  const auto block = static_cast<std::size_t>(block_bytes(dtype));
  const auto expected = bytes / block * static_cast<std::size_t>(block_size(dtype));
  if (bytes % block == 0 && elements == expected) return;
  throw std::invalid_argument(fmt::format(
      "dequantize: {} bytes of {} to {} elements; pass whole blocks of {} bytes, {} elements each",
      bytes, name_of(dtype), elements, block, block_size(dtype)));
}

void decode(DType dtype, std::span<const std::byte> src, std::span<float> dst) {
  switch (dtype) {
    case DType::kF32:
      if (!src.empty()) std::memcpy(dst.data(), src.data(), src.size());
      return;
    case DType::kF16:
      return decode_blocks<internal::BlockF16>(src, dst);
    case DType::kBF16:
      return decode_blocks<internal::BlockBF16>(src, dst);
    case DType::kQ8_0:
      return decode_blocks<internal::BlockQ80>(src, dst);
    case DType::kQ4_0:
      return decode_blocks<internal::BlockQ40>(src, dst);
    case DType::kQ4_1:
      return decode_blocks<internal::BlockQ41>(src, dst);
    case DType::kQ5_0:
      return decode_blocks<internal::BlockQ50>(src, dst);
    case DType::kQ5_1:
      return decode_blocks<internal::BlockQ51>(src, dst);
    case DType::kQ4_K:
      return decode_blocks<internal::BlockQ4K>(src, dst);
    case DType::kQ5_K:
      return decode_blocks<internal::BlockQ5K>(src, dst);
    case DType::kQ6_K:
      return decode_blocks<internal::BlockQ6K>(src, dst);
    case DType::kQ2_K:
      return decode_blocks<internal::BlockQ2K>(src, dst);
    case DType::kQ3_K:
      return decode_blocks<internal::BlockQ3K>(src, dst);
    case DType::kIQ4_NL:
      return decode_blocks<internal::BlockIQ4NL>(src, dst);
    case DType::kIQ4_XS:
      return decode_blocks<internal::BlockIQ4XS>(src, dst);
    case DType::kMXFP4:
      return decode_blocks<internal::BlockMXFP4>(src, dst);
    default:  // no weights
      break;
  }
  __builtin_unreachable();
}

}  // namespace

void dequantize(DType dtype, std::span<const std::byte> src, std::span<float> dst) {
  check_sizes(dtype, src.size(), dst.size());
  decode(dtype, src, dst);
}

void dequantize_bf16(DType dtype, std::span<const std::byte> src, std::span<std::uint16_t> dst) {
  check_sizes(dtype, src.size(), dst.size());
  if (dtype == DType::kBF16) {
    if (!src.empty()) std::memcpy(dst.data(), src.data(), src.size());
    return;
  }
  // Through a buffer that stays in the first-level cache; 2048 is a multiple of every block size.
  std::array<float, 2048> buffer;
  const auto chunk_bytes = static_cast<std::size_t>(*byte_size(dtype, buffer.size()));
  while (!dst.empty()) {
    const std::size_t n = std::min(dst.size(), buffer.size());
    const std::size_t bytes = std::min(src.size(), chunk_bytes);
    decode(dtype, src.first(bytes), std::span(buffer).first(n));
    for (std::size_t i = 0; i < n; ++i) dst[i] = bf16_of_float(buffer[i]);
    src = src.subspan(bytes);
    dst = dst.subspan(n);
  }
}

}  // namespace forerun
