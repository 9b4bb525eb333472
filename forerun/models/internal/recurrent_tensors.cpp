#include "forerun/models/internal/recurrent_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/dequantize.h"

namespace forerun::internal {
namespace {

constexpr std::string_view kQueries = ".self_attn.q_proj.", kGates = ".self_attn.gate_proj.";

bool is_convolution(const std::string& name) {
  return name.ends_with("conv.conv.weight") || name.ends_with("conv1d.weight");
}

bool is_rate(const std::string& name) { return name.ends_with("linear_attn.A_log"); }

[[noreturn]] void wrong_shape(const TensorView& view, const std::string& wanted) {
  throw FormatError(fmt::format("tensor '{}' has shape [{}], the model's sizes ask for [{}]",
                                view.name, fmt::join(view.shape, ", "), wanted));
}

std::vector<float> values_of(const TensorView& view) {
  if (!holds_weights(view.dtype)) {
    throw FormatError(fmt::format("tensor '{}' {}", view.name, why_no_weights(view.dtype)));
  }
  std::int64_t n = 1;
  for (const std::int64_t size : view.shape) n *= size;
  std::vector<float> out(static_cast<std::size_t>(n));
  dequantize(view.dtype, view.bytes, out);
  return out;
}

OwnTensor own_of(const TensorView& view, DType dtype, std::vector<std::int64_t> shape,
                 std::shared_ptr<std::vector<std::byte>> bytes) {
  return {.view = {.name = view.name, .dtype = dtype, .shape = std::move(shape), .bytes = *bytes},
          .memory = std::move(bytes)};
}

OwnTensor own_floats(const TensorView& view, std::vector<std::int64_t> shape,
                     const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return own_of(view, DType::kF32, std::move(shape),
                std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end()));
}

OwnTensor convolution(const DecoderConfig& c, const TensorView& view) {
  std::vector<std::int64_t> shape = view.shape;
  if (shape.size() == 3 && shape[1] == 1) shape.erase(shape.begin() + 1);
  const std::int64_t channels = c.conv_channels(), taps = c.recurrent.taps;
  if (shape != std::vector<std::int64_t>{channels, taps}) {
    wrong_shape(view, fmt::format("{}, 1, {}", channels, taps));
  }
  const std::vector<float> in = values_of(view);
  std::vector<float> out(in.size());
  for (std::int64_t i = 0; i < channels; ++i) {
    for (std::int64_t t = 0; t < taps; ++t) {
      out[static_cast<std::size_t>(t * channels + i)] = in[static_cast<std::size_t>(i * taps + t)];
    }
  }
  return own_floats(view, {taps, channels}, out);
}

OwnTensor rates(const DecoderConfig& c, const TensorView& view, bool gguf) {
  const std::int64_t heads = c.recurrent.value_heads;
  std::int64_t n = 1;
  for (const std::int64_t size : view.shape) n *= size;
  if (n != heads) wrong_shape(view, fmt::format("{}", heads));
  std::vector<float> values = values_of(view);
  for (float& x : values) x = gguf ? -x : std::exp(x);
  if (std::any_of(values.begin(), values.end(),
                  [](float x) { return !std::isfinite(x) || x < 0.0F; })) {
    throw FormatError(fmt::format("tensor '{}' makes a state grow", view.name));
  }
  return own_floats(view, {heads}, values);
}

// Of every head the first or the second half of its rows.
OwnTensor rows_of_heads(const DecoderConfig& c, const TensorView& view, bool second) {
  const std::int64_t rows = c.query_width();
  std::vector<std::int64_t> shape = view.shape;
  if (shape.empty() || shape[0] != 2 * rows) {
    wrong_shape(view, fmt::format("{}, {}", 2 * rows, c.hidden));
  }
  shape[0] = rows;
  const std::size_t head = view.bytes.size() / static_cast<std::size_t>(2 * c.heads);
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(head * static_cast<std::size_t>(c.heads));
  for (std::int64_t h = 0; h < c.heads; ++h) {
    const auto own = view.bytes.subspan(static_cast<std::size_t>(2 * h + (second ? 1 : 0)) * head,
                                        head);
    bytes->insert(bytes->end(), own.begin(), own.end());
  }
  return own_of(view, view.dtype, std::move(shape), std::move(bytes));
}

}  // namespace

bool is_recurrent_value(const std::string& name) {
  return is_convolution(name) || is_rate(name) || name.ends_with("conv.conv.bias") ||
         name.ends_with("linear_attn.dt_bias");
}

std::string with_gates_name(const DecoderConfig& c, const std::string& name) {
  const std::size_t at = name.find(kGates);
  if (!c.output_gate || at == std::string::npos) return name;
  return std::string(name).replace(at, kGates.size(), kQueries);
}

std::optional<OwnTensor> recurrent_tensor(const DecoderConfig& c, const std::string& name,
                                          const TensorView& view, bool gguf) {
  if (is_convolution(name)) return convolution(c, view);
  if (is_rate(name)) return rates(c, view, gguf);
  if (!c.output_gate) return std::nullopt;
  const bool gate = name.find(kGates) != std::string::npos;
  if (!gate && name.find(kQueries) == std::string::npos) return std::nullopt;
  return rows_of_heads(c, view, gate);
}

}  // namespace forerun::internal
