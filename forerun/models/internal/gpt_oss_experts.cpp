#include "forerun/models/internal/gpt_oss_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun::internal {
namespace {

using Bytes = std::vector<std::byte>;
using Find = std::function<const TensorView*(const std::string&)>;

// Which part of the layer's tensors a name asks for.
struct Part {
  std::string tensor;  // "model.layers.0.mlp.experts.gate_up_proj"
  std::int64_t expert = 0;
  std::int64_t first = 0, step = 1;  // of its outputs: of gates and ups every second one
  bool bias = false;
};

std::optional<Part> part_of(const std::string& name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t number = at + kExperts.size(), end = name.find('.', number);
  const std::string_view rest = std::string_view(name).substr(end + 1);
  Part out{.tensor = name.substr(0, number), .expert = std::stoll(name.substr(number))};
  out.bias = rest.ends_with(".bias");
  if (rest.starts_with("down_proj")) {
    out.tensor += "down_proj";
  } else {
    out.tensor += "gate_up_proj";
    out.first = rest.starts_with("up_proj") ? 1 : 0;
    out.step = 2;
  }
  return out;
}

[[noreturn]] void refuse(const TensorView& t) {
  throw FormatError(fmt::format("tensor '{}' has shape [{}] and type {}, not that of experts",
                                t.name, fmt::join(t.shape, ", "), name_of(t.dtype)));
}

void expect(bool fits, const TensorView& t) {
  if (!fits) refuse(t);
}

OwnTensor owned(const TensorView& from, DType dtype, std::vector<std::int64_t> shape, Bytes bytes) {
  auto memory = std::make_shared<const Bytes>(std::move(bytes));
  return {{from.name, dtype, std::move(shape), std::span(*memory)}, memory};
}

// @param t  [experts, inputs, outputs]
OwnTensor transposed(const TensorView& t, const Part& part) {
  expect(t.shape.size() == 3 && part.expert < t.shape[0] && t.shape[1] > 0 &&
             t.shape[2] >= part.step && block_size(t.dtype) == 1 && holds_weights(t.dtype),
         t);
  const std::int64_t inputs = t.shape[1], all = t.shape[2], outputs = all / part.step;
  const auto size = static_cast<std::size_t>(block_bytes(t.dtype));
  const std::byte* const from =
      t.bytes.data() + static_cast<std::size_t>(part.expert * inputs * all) * size;
  Bytes out(static_cast<std::size_t>(outputs * inputs) * size);
  parallel_for(0, outputs, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      for (std::int64_t o = begin; o < end; ++o) {
        const auto at = static_cast<std::size_t>(i * all + part.first + o * part.step);
        std::memcpy(out.data() + static_cast<std::size_t>(o * inputs + i) * size, from + at * size,
                    size);
      }
    }
  });
  return owned(t, t.dtype, {outputs, inputs}, std::move(out));
}

// @param t  [experts, outputs]
OwnTensor bias_of(const TensorView& t, const Part& part) {
  expect(t.shape.size() == 2 && part.expert < t.shape[0] && t.shape[1] >= part.step &&
             block_size(t.dtype) == 1 && holds_weights(t.dtype),
         t);
  const std::int64_t all = t.shape[1], outputs = all / part.step;
  const auto size = static_cast<std::size_t>(block_bytes(t.dtype));
  Bytes out(static_cast<std::size_t>(outputs) * size);
  for (std::int64_t o = 0; o < outputs; ++o) {
    const auto at = static_cast<std::size_t>(part.expert * all + part.first + o * part.step);
    std::memcpy(out.data() + static_cast<std::size_t>(o) * size, t.bytes.data() + at * size, size);
  }
  return owned(t, t.dtype, {outputs}, std::move(out));
}

// Neighbouring numbers share a byte, the first one low, where GGML's are 16 apart.
void put_block(const std::byte* from, std::byte scale, std::byte* to) {
  constexpr std::byte kLow{15};
  const auto code = [&](int i) { return i % 2 == 0 ? from[i / 2] & kLow : from[i / 2] >> 4U; };
  to[0] = scale;
  for (int i = 0; i < 16; ++i) to[1 + i] = code(i) | code(16 + i) << 4U;
}

// @param blocks  [experts, outputs, groups, 16]
// @param scales  [experts, outputs, groups]
OwnTensor regrouped(const TensorView& blocks, const TensorView& scales, const Part& part) {
  expect(blocks.shape.size() == 4 && part.expert < blocks.shape[0] &&
             blocks.shape[1] >= part.step && blocks.shape[2] > 0 && blocks.shape[3] == 16 &&
             blocks.dtype == DType::kU8,
         blocks);
  expect(scales.shape == std::vector<std::int64_t>(blocks.shape.begin(), blocks.shape.end() - 1) &&
             (scales.dtype == DType::kU8 || scales.dtype == DType::kF8_E8M0),
         scales);
  const std::int64_t all = blocks.shape[1], groups = blocks.shape[2], outputs = all / part.step;
  const auto bytes = static_cast<std::size_t>(block_bytes(DType::kMXFP4));
  Bytes out(static_cast<std::size_t>(outputs * groups) * bytes);
  parallel_for(0, outputs, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t row = part.expert * all + part.first + o * part.step;
      for (std::int64_t g = 0; g < groups; ++g) {
        const auto at = static_cast<std::size_t>(row * groups + g);
        put_block(blocks.bytes.data() + 16 * at, scales.bytes[at],
                  out.data() + static_cast<std::size_t>(o * groups + g) * bytes);
      }
    }
  });
  return owned(blocks, DType::kMXFP4, {outputs, groups * block_size(DType::kMXFP4)},
               std::move(out));
}

}  // namespace

std::optional<OwnTensor> gpt_oss_expert(const std::string& name, const Find& find) {
  const std::optional<Part> part = part_of(name);
  if (!part) return std::nullopt;
  if (part->bias) {
    const TensorView* const bias = find(part->tensor + "_bias");
    return bias != nullptr ? std::optional(bias_of(*bias, *part)) : std::nullopt;
  }
  if (const TensorView* const weight = find(part->tensor)) return transposed(*weight, *part);
  const TensorView* const blocks = find(part->tensor + "_blocks");
  const TensorView* const scales = find(part->tensor + "_scales");
  if (blocks == nullptr || scales == nullptr) return std::nullopt;
  return regrouped(*blocks, *scales, *part);
}

}  // namespace forerun::internal
