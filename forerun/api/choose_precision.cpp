#include "forerun/api/choose_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/base/available_memory.h"
#include "forerun/diffusion_text.h"
#include "forerun/formats/four_bit_groups.h"
#include "forerun/image.h"
#include "forerun/token_image.h"

namespace forerun {
namespace {

struct Offer {
  Precision precision;
  std::string missing;  // why it cannot be had; empty: it can
};

// @param offers  the fastest first; the last can always be had
ChosenPrecision choose(const std::string& path, PrecisionRequest requested,
                       std::initializer_list<Offer> offers) {
  const auto can = [](const Offer& o) { return o.missing.empty(); };
  const Offer& fastest = *offers.begin();
  if (!requested) {
    const Offer& best = *std::ranges::find_if(offers, can);
    return {.precision = best.precision,
            .reason = can(fastest)
                          ? "the fastest on this processor"
                          : fmt::format("no {}: {}", name_of(fastest.precision), fastest.missing),
            .fastest = can(fastest)};
  }
  const Offer* const found =
      std::ranges::find_if(offers, [&](const Offer& o) { return o.precision == *requested; });
  if (found != offers.end() && can(*found)) {
    return {.precision = *requested, .reason = "as requested", .fastest = true};
  }
  std::string others = "auto";
  for (const Offer& o : offers) {
    if (can(o)) others = fmt::format("{}, {}", name_of(o.precision), others);
  }
  throw UsageError(
      fmt::format("{} cannot be computed in {}: {}; ask for {}", path, name_of(*requested),
                  found == offers.end() ? "images have no such kernels" : found->missing, others));
}

std::string lacking(const CpuFeatures& cpu) {
  return fmt::format("this processor ({}) lacks AVX2", cpu.name);
}

}  // namespace

namespace {

// GGUF's matrices of one input, which are one product: all of them are in 4 bits, or none is. Some
// files have them in one tensor (Phi-3's attn_qkv, and ffn_up, without ffn_gate).
bool stays_in_four_bits(const WeightSource& file, const std::string& name) {
  const std::size_t block = name.find('.', 4) + 1;
  if (!name.starts_with("blk.") || block == 0) return false;
  std::vector<std::string_view> together = {std::string_view(name).substr(block)};
  for (const std::vector<std::string_view>& parts :
       {std::vector<std::string_view>{"attn_q.weight", "attn_k.weight", "attn_v.weight"},
        std::vector<std::string_view>{"ffn_gate.weight", "ffn_up.weight"},
        std::vector<std::string_view>{"ffn_gate_shexp.weight", "ffn_up_shexp.weight"},
        std::vector<std::string_view>{"ffn_gate_exps.weight", "ffn_up_exps.weight"}}) {
    if (std::ranges::find(parts, together[0]) != parts.end()) {
      together = parts;
      break;
    }
  }
  return std::ranges::all_of(together, [&](std::string_view part) {
    const TensorView* t = file.find(name.substr(0, block) + std::string(part));
    return t == nullptr || has_four_bit_groups(t->dtype);
  });
}

// gpt-oss's experts in a Hugging Face folder: two weights a byte, beside their scales.
bool is_mxfp4_blocks(const TensorView& t) {
  return t.dtype == DType::kU8 && t.shape.size() == 4 && t.name.ends_with("_blocks");
}

std::uint64_t weights_of(const TensorView& t) {
  const auto count = static_cast<std::uint64_t>(element_count(t.shape).value_or(0));
  return is_mxfp4_blocks(t) ? 2 * count : count;
}

bool in_four_bits(const WeightSource& file, const TensorView& t) {
  return is_mxfp4_blocks(t) || stays_in_four_bits(file, t.name);
}

// The name up to its first number, "blk.3" or "model.layers.3"; empty: it has none.
std::string_view layer_of(std::string_view name) {
  const std::size_t digit = name.find_first_of("0123456789");
  return name.substr(0, digit == name.npos ? 0 : name.find('.', digit));
}

}  // namespace

std::uint64_t weights_in_four_bits(const WeightSource& file) {
  std::uint64_t out = 0;
  for (const TensorView& t : file.tensors()) {
    if (in_four_bits(file, t)) out += weights_of(t);
  }
  return out;
}

TextModelSizes text_model_sizes(const std::string& path) {
  TextModelSizes out{.available = available_memory()};
  try {
    const WeightSource file = load_weights(path);
    std::map<std::string_view, std::uint64_t> layers, wide_layers;
    out.four_bits = weights_in_four_bits(file);
    for (const TensorView& t : file.tensors()) {
      const std::uint64_t count = weights_of(t);
      out.weights += count;
      if (t.shape.size() == 2) out.largest = std::max(out.largest, count);
      if (const std::string_view name = layer_of(t.name); !name.empty()) {
        out.layer = std::max(out.layer, layers[name] += count);
        if (!in_four_bits(file, t)) {
          out.wide_layer = std::max(out.wide_layer, wide_layers[name] += count);
        }
      }
    }
  } catch (const FormatError&) {
    return {.read = false};
  }
  return out;
}

ChosenPrecision text_precision(const std::string& path, PrecisionRequest requested,
                               const CpuFeatures& cpu, const TextModelSizes& sizes) {
  const std::string lacks = cpu.int8() ? "" : lacking(cpu);
  const std::string no_int4 =
      !lacks.empty() ? lacks
      : sizes.four_bits == 0 && sizes.read
          ? "none of its layers' matrices is stored in 4 bits (Q4_0, Q4_1, Q4_K, MXFP4)"
          : "";
  // int8 takes a byte a weight, int4 five bits; embedding, head and a layer are float32 while the
  // layers are packed.
  const double weights = static_cast<double>(sizes.weights);
  const double bytes = lacks.empty() ? weights + 8.0 * static_cast<double>(sizes.largest) +
                                           4.0 * static_cast<double>(sizes.layer)
                                     : 4.0 * weights;
  const double spared = no_int4.empty()
                            ? 0.375 * static_cast<double>(sizes.four_bits) +
                                  4.0 * static_cast<double>(sizes.layer - sizes.wide_layer)
                            : 0.0;
  const auto available = static_cast<double>(sizes.available);
  // Up to some ten tokens a pass waits for its weights. More take 1.15 times as long in int4 with
  // AVX-512, and up to twice as long with AMX.
  const bool half = spared > 0.0 && 2 * sizes.four_bits >= sizes.weights;
  const bool prefers_int4 = half && sizes.rows == PassRows::kFew;
  const double taken = prefers_int4 ? bytes - spared : bytes;
  if (!requested && taken > available) {
    constexpr double kGigabyte = 1e9;
    const std::string_view first = !lacks.empty() ? "f32" : prefers_int4 ? "int4" : "int8";
    return {.precision =
                spared > 0.0 && bytes - spared <= available ? Precision::kInt4 : Precision::kFile,
            .reason = fmt::format("{:.1f} GB of memory are free, {} takes {:.1f}",
                                  available / kGigabyte, first, taken / kGigabyte),
            .fastest = false};
  }
  Offer first{Precision::kInt8, lacks}, second{Precision::kInt4, no_int4};
  if (prefers_int4) std::swap(first, second);
  // Without int8 products float32 is the fastest there is: such processors have none for bf16.
  return choose(
      path, requested,
      {first, second, {Precision::kF32, ""}, {Precision::kBF16, ""}, {Precision::kFile, ""}});
}

PassRows rows_of_whole_texts(const CpuFeatures& cpu) noexcept {
  return cpu.avx512_vnni ? PassRows::kMany : PassRows::kFew;
}

ChosenPrecision image_precision(const std::string& path, PrecisionRequest requested,
                                const CpuFeatures& cpu, bool fits) {
  std::string missing = fits ? "" : "the network's sizes do not suit its kernels";
  if (!cpu.int8()) missing = lacking(cpu);
  return choose(path, requested, {{Precision::kBF16, missing}, {Precision::kF32, ""}});
}

ChosenPrecision token_image_precision(const std::string& path, PrecisionRequest requested,
                                      const CpuFeatures& cpu) {
  const Offer bf16{Precision::kBF16, cpu.int8() ? "" : lacking(cpu)}, f32{Precision::kF32, ""};
  // Emulated bf16 products take longer than float32 ones.
  if (cpu.avx512_bf16 && cpu.fast_bf16) return choose(path, requested, {bf16, f32});
  return choose(path, requested, {f32, bf16});
}

ChosenPrecision auto_precision(const std::string& path, PassRows rows) {
  const CpuFeatures& cpu = cpu_features();
  if (is_diffusion_model(path)) return image_precision(path, kAutoPrecision, cpu, true);
  if (is_token_image_model(path)) return token_image_precision(path, kAutoPrecision, cpu);
  TextModelSizes sizes = text_model_sizes(path);
  sizes.rows = is_diffusion_language_model(path) ? rows_of_whole_texts(cpu) : rows;
  return text_precision(path, kAutoPrecision, cpu, sizes);
}

}  // namespace forerun
