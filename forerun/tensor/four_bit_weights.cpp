#include "forerun/tensor/four_bit_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "forerun/base/vector_clones.h"
#include "forerun/formats/four_bit_groups.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

constexpr std::size_t kNumbers = FourBitGroup::kNumbers;
constexpr float kMostLevel = 15.0F;

// A block of Q4_1: scale, least value, then levels of i and i + 16 in the halves of a byte.
struct Block {
  std::uint16_t scale, least;
  std::array<std::uint8_t, kNumbers / 2> levels;
};

// What a line through levels gives back, in float16.
struct Line {
  float scale = 0.0F, least = 0.0F;
};

struct Rounding {
  std::array<float, kNumbers> levels = {};
  Line line;
  float error = std::numeric_limits<float>::infinity();  // sum of squares
};

inline float half(float x) { return static_cast<float>(c10::Half(x)); }

// Halves onto each other: the order of the sums is the same for vectors of any size.
inline float sum(std::array<float, kNumbers>& x) {
  for (std::size_t n = kNumbers / 2; n > 0; n /= 2) {
    for (std::size_t i = 0; i < n; ++i) x[i] += x[i + n];
  }
  return x[0];
}

// Levels of an even division that begins at `least`; then the least squares' line through them.
inline Rounding rounded(const float* x, float scale, float least, float sum_x) {
  Rounding out;
  std::array<float, kNumbers> levels, products, squares, errors;
  const float by = scale > 0.0F ? 1.0F / scale : 0.0F;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    // A value that is not a number is level 0 here.
    const float level = std::min(kMostLevel, std::max(0.0F, (x[i] - least) * by + 0.5F));
    levels[i] = out.levels[i] = static_cast<float>(static_cast<std::int32_t>(level));
    products[i] = levels[i] * x[i];
    squares[i] = levels[i] * levels[i];
  }
  constexpr auto kCount = static_cast<float>(kNumbers);
  const float sum_l = sum(levels), sum_lx = sum(products), sum_ll = sum(squares);
  const float spread = kCount * sum_ll - sum_l * sum_l;
  out.line.scale = half(spread > 0.0F ? (kCount * sum_lx - sum_x * sum_l) / spread : 0.0F);
  out.line.least = half((sum_x - out.line.scale * sum_l) / kCount);
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const float off = x[i] - (out.line.scale * out.levels[i] + out.line.least);
    errors[i] = off * off;
  }
  out.error = sum(errors);
  return out;
}

Block block_of(const Rounding& r) {
  Block out{.scale = c10::Half(r.line.scale).x, .least = c10::Half(r.line.least).x, .levels = {}};
  constexpr std::size_t kHalf = kNumbers / 2;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const auto low = static_cast<unsigned>(r.levels[i]),
               high = static_cast<unsigned>(r.levels[i + kHalf]);
    out.levels[i] = static_cast<std::uint8_t>(low | high << 4U);
  }
  return out;
}

// Ranges that leave out a little at both ends are tried too: most numbers lie in the middle.
FORERUN_VECTOR_CLONES void round_blocks(const float* x, std::span<Block> out) {
  for (Block& block : out) {
    std::array<float, kNumbers> values;
    std::copy_n(x, kNumbers, values.begin());
    float low = x[0], high = x[0];
    for (std::size_t i = 0; i < kNumbers; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    const float sum_x = sum(values), range = high - low;
    Rounding best;
    for (const float left_out : {0.0F, 0.02F, 0.04F, 0.06F, 0.08F, 0.1F}) {
      const float scale = (1.0F - 2.0F * left_out) * range / kMostLevel;
      const Rounding r = rounded(x, scale, low + left_out * range, sum_x);
      if (r.error < best.error) best = r;
    }
    if (!std::isfinite(best.error)) {
      best.line.scale = best.line.least = std::numeric_limits<float>::quiet_NaN();
    }
    block = block_of(best);
    x += kNumbers;
  }
}

}  // namespace

std::shared_ptr<const StoredMatrix> four_bit_weights(const at::Tensor& weight) {
  const at::Tensor values = weight.detach().to(at::kFloat).contiguous();
  const auto blocks = values.numel() / static_cast<std::int64_t>(kNumbers);
  const auto memory = std::make_shared<std::vector<Block>>(static_cast<std::size_t>(blocks));
  const float* from = values.const_data_ptr<float>();
  parallel_for(0, blocks, 1024, [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin);
    round_blocks(from + first * kNumbers,
                 std::span(*memory).subspan(first, static_cast<std::size_t>(end - begin)));
  });
  const TensorView view{.name = "rounded weights",
                        .dtype = DType::kQ4_1,
                        .shape = values.sizes().vec(),
                        .bytes = std::as_bytes(std::span(*memory))};
  return std::make_shared<const StoredMatrix>(view, RowMap(), memory);
}

at::Tensor straight_through_four_bits(const at::Tensor& weight) {
  const at::Tensor values = weight.detach();
  const at::Tensor rounded = four_bit_weights(values.cpu())->unpacked().to(values.device());
  return weight + (rounded - values);
}

}  // namespace forerun
