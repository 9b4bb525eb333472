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
constexpr std::string_view kMixed = ".in_proj_qkv.", kOutputGates = ".in_proj_z.",
                           kBeta = ".in_proj_b.", kDecay = ".in_proj_a.";

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
  OwnTensor out;
  out.view = {.name = view.name, .dtype = dtype, .shape = std::move(shape), .bytes = *bytes};
  out.memory = std::move(bytes);
  return out;
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
    throw FormatError(
        fmt::format("tensor '{}' holds a rate that is infinite or makes a state grow", view.name));
  }
  return own_floats(view, {heads}, values);
}

// Rows of a tensor: of each of `groups` equal runs of rows those from `first` on.
struct RunsOfRows {
  std::int64_t groups, first, rows, all;  // all: of a group
};

OwnTensor runs_of_rows(const TensorView& view, const RunsOfRows& runs) {
  std::vector<std::int64_t> shape = view.shape;
  if (shape.empty() || shape[0] != runs.groups * runs.all) {
    wrong_shape(view, fmt::format("{}, ...", runs.groups * runs.all));
  }
  shape[0] = runs.groups * runs.rows;
  const std::size_t row = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  const std::size_t size = row * static_cast<std::size_t>(runs.rows);
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(size * static_cast<std::size_t>(runs.groups));
  for (std::int64_t g = 0; g < runs.groups; ++g) {
    const auto own =
        view.bytes.subspan(row * static_cast<std::size_t>(g * runs.all + runs.first), size);
    bytes->insert(bytes->end(), own.begin(), own.end());
  }
  return own_of(view, view.dtype, std::move(shape), std::move(bytes));
}

// [queries, keys, values] of RecurrentConfig::by_heads.
OwnTensor joined_by_heads(const RecurrentConfig& r, const TensorView& view) {
  const std::int64_t values = r.value_width() / r.key_heads, all = 2 * r.key_dim + 2 * values;
  std::vector<OwnTensor> parts;
  for (const auto& [first, rows] :
       {std::pair(std::int64_t{0}, r.key_dim), std::pair(r.key_dim, r.key_dim),
        std::pair(2 * r.key_dim, values)}) {
    parts.push_back(runs_of_rows(view, {r.key_heads, first, rows, all}));
  }
  auto bytes = std::make_shared<std::vector<std::byte>>();
  std::vector<std::int64_t> shape = view.shape;
  shape[0] = 0;
  for (const OwnTensor& part : parts) {
    bytes->insert(bytes->end(), part.view.bytes.begin(), part.view.bytes.end());
    shape[0] += part.view.shape[0];
  }
  return own_of(view, view.dtype, std::move(shape), std::move(bytes));
}

std::optional<OwnTensor> part_by_heads(const RecurrentConfig& r, const std::string& name,
                                       const TensorView& view) {
  const std::int64_t values = r.value_width() / r.key_heads, group = r.value_heads / r.key_heads;
  const auto is = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (r.by_heads && is(kMixed)) return joined_by_heads(r, view);
  if (r.by_heads && is(kOutputGates)) {
    return runs_of_rows(view,
                        {r.key_heads, 2 * r.key_dim + values, values, 2 * r.key_dim + 2 * values});
  }
  if (!r.rates_by_heads) return std::nullopt;
  if (is(kBeta)) return runs_of_rows(view, {r.key_heads, 0, group, 2 * group});
  if (is(kDecay)) return runs_of_rows(view, {r.key_heads, group, group, 2 * group});
  return std::nullopt;
}

}  // namespace

bool is_recurrent_value(const std::string& name) {
  return is_convolution(name) || is_rate(name) || name.ends_with("conv.conv.bias") ||
         name.ends_with("linear_attn.dt_bias");
}

std::string joined_recurrent_name(const DecoderConfig& c, const std::string& name) {
  const auto renamed = [&](std::string_view ours, std::string_view theirs) {
    const std::size_t at = name.find(ours);
    return at == std::string::npos ? "" : std::string(name).replace(at, ours.size(), theirs);
  };
  std::string out = c.output_gate ? renamed(kGates, kQueries) : "";
  for (const auto part : {kMixed, kOutputGates}) {
    if (out.empty() && c.recurrent.by_heads) out = renamed(part, ".in_proj_qkvz.");
  }
  for (const auto part : {kBeta, kDecay}) {
    if (out.empty() && c.recurrent.rates_by_heads) out = renamed(part, ".in_proj_ba.");
  }
  return out.empty() ? name : out;
}

std::optional<OwnTensor> recurrent_tensor(const DecoderConfig& c, const std::string& name,
                                          const TensorView& view, bool gguf) {
  if (is_convolution(name)) return convolution(c, view);
  if (is_rate(name)) return rates(c, view, gguf);
  if (c.recurrent.by_heads || c.recurrent.rates_by_heads) {
    if (std::optional<OwnTensor> part = part_by_heads(c.recurrent, name, view)) return part;
  }
  if (!c.output_gate) return std::nullopt;
  const bool gate = name.find(kGates) != std::string::npos;
  if (!gate && name.find(kQueries) == std::string::npos) return std::nullopt;
  return runs_of_rows(view, {c.heads, gate ? c.head_dim : 0, c.head_dim, 2 * c.head_dim});
}

}  // namespace forerun::internal
