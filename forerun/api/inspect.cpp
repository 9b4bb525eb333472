#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/npy.h"
#include "forerun/formats/weight_source.h"
#include "forerun/text.h"

namespace forerun {
namespace {

std::string value_text(const GgufValue& value) {
  const auto show = [&](const auto& v) -> std::string {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::string_view>) {
      return printable(v, 80);
    } else if constexpr (std::is_same_v<T, GgufArray>) {
      return fmt::format("{}, {} entries", describe_type(value), v.size);
    } else {
      return fmt::format("{}", v);
    }
  };
  return std::visit(show, value);
}

std::string millions(std::int64_t n) {
  return fmt::format("{:.1f} M", static_cast<double>(n) / 1e6);
}

void add_tensors(FileInfo& info, const std::vector<TensorView>& tensors) {
  std::int64_t parameters = 0;
  std::size_t bytes = 0;
  for (const TensorView& t : tensors) {
    parameters += element_count(t.shape).value_or(0);
    bytes += t.bytes.size();
    info.tensors.push_back({t.name, std::string(name_of(t.dtype)), t.shape});
  }
  info.facts.emplace_back("tensors", fmt::format("{}", tensors.size()));
  info.facts.emplace_back("parameters", millions(parameters));
  info.facts.emplace_back("bytes of tensors", millions(static_cast<std::int64_t>(bytes)));
}

}  // namespace

FileInfo inspect(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw UsageError(fmt::format("no file at '{}'", path));
  }
  FileInfo info;
  const WeightSource weights = load_weights(path);
  info.facts.emplace_back("file", path);
  if (const Gguf* gguf = weights.gguf()) {
    info.facts.emplace_back("format", fmt::format("GGUF v{}", gguf->version()));
    add_tensors(info, weights.tensors());
    if (const std::uint64_t four = weights_in_four_bits(weights); four > 0) {
      info.facts.emplace_back("parameters in 4 bits", millions(static_cast<std::int64_t>(four)) +
                                                          ", which --precision int4 keeps so");
    }
    for (const auto& entry : gguf->metadata()) {
      info.facts.emplace_back(std::string(entry.key), value_text(entry.value));
    }
    return info;
  }
  info.facts.emplace_back("format", "safetensors");
  add_tensors(info, weights.tensors());
  if (std::filesystem::is_directory(path, ignored)) {
    const HfConfig config = load_hf_config(path);
    for (const auto& [key, value] : config.config.items()) {
      info.facts.emplace_back(key, printable(value.dump(), 80));
    }
  }
  return info;
}

void save_npy(const Logits& logits, const std::string& path) {
  NpyWriter writer(path, static_cast<std::int64_t>(logits.vocab));
  writer.write_rows(logits.values);
  writer.finish();
}

}  // namespace forerun
