#pragma once

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/models/build_decoder.h"
#include "forerun/models/decoder_config_gguf.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/tiny_models.h"

/// Files of models with recurrent layers, damaged ones too.
namespace forerun::testing {

inline void expect_says(const std::string& said, const char* part) {
  EXPECT_NE(said.find(part), std::string::npos) << said << " lacks: " << part;
}

inline std::string numbers(const std::vector<std::int32_t>& values) {
  std::string out =
      GgufBuilder::raw<std::uint32_t>(5) + GgufBuilder::raw<std::uint64_t>(values.size());
  for (const std::int32_t n : values) out += GgufBuilder::raw(n);
  return out;
}

/// Keys of a file, which a test replaces, or leaves out.
struct FileKeys {
  std::string architecture;
  std::vector<std::pair<std::string, std::int64_t>> integers;
  std::vector<std::pair<std::string, std::vector<std::int32_t>>> lists;
  std::vector<std::string> further_tensors = {};  ///< their names matter alone

  FileKeys with(const std::string& key, std::int64_t value) const {
    FileKeys out = without(key);
    out.integers.emplace_back(key, value);
    return out;
  }
  FileKeys with(const std::string& key, std::vector<std::int32_t> values) const {
    FileKeys out = without(key);
    out.lists.emplace_back(key, std::move(values));
    return out;
  }
  FileKeys without(const std::string& key) const {
    FileKeys out = *this;
    std::erase_if(out.integers, [&](const auto& e) { return e.first == key; });
    std::erase_if(out.lists, [&](const auto& e) { return e.first == key; });
    return out;
  }
  Result<DecoderConfig> parsed() const {
    constexpr std::uint32_t kList = 9, kInt64 = 11;
    GgufBuilder b;
    b.string("general.architecture", architecture);
    const std::string at = architecture + ".";
    for (const auto& [key, value] : integers) b.entry(at + key, kInt64, GgufBuilder::raw(value));
    for (const auto& [key, values] : lists) b.entry(at + key, kList, numbers(values));
    b.tensor("token_embd.weight", {32, 1}, 0, 0).data = std::string(128, '\0');
    for (const std::string& name : further_tensors) {
      b.tensor(name, {32, 1}, 0, b.data.size()).data.append(128, '\0');
    }
    const std::string bytes = b.bytes();
    return parse_decoder_config(*parse_gguf(std::as_bytes(std::span(bytes))));
  }
  std::string refusal() const {
    const auto config = parsed();
    return config ? "" : config.error().message;
  }
};

inline FileKeys plain_keys(const char* architecture) {
  return {architecture,
          {{"embedding_length", 32},
           {"context_length", 64},
           {"feed_forward_length", 32},
           {"block_count", 4},
           {"attention.head_count", 2}},
          {}};
}
inline FileKeys lfm2_keys(const char* architecture = "lfm2") {
  return plain_keys(architecture)
      .with("shortconv.l_cache", 3)
      .with("attention.head_count_kv", std::vector{0, 1, 0, 1});
}
inline FileKeys qwen35_keys(const char* architecture = "qwen35") {
  return plain_keys(architecture)
      .with("attention.head_count_kv", 1)
      .with("ssm.conv_kernel", 4)
      .with("ssm.group_count", 2)
      .with("ssm.state_size", 16)
      .with("ssm.time_step_rank", 4)
      .with("ssm.inner_size", 64)
      .with("rope.dimension_count", 4)
      .with("rope.dimension_sections", std::vector{1, 1, 0, 0});
}

/// Tensors of a GGUF file, some of them others.
class AlteredFile {
 public:
  explicit AlteredFile(const std::string& family)
      : file_(load_gguf(kTiny + family + "/model.gguf")), config(*parse_decoder_config(file_)) {
    for (const TensorView& t : file_.tensors()) tensors[t.name] = t;
  }
  DecoderLm load(Precision precision) const {
    const FindTensor find = [this](const std::string& name) -> const TensorView* {
      const auto found = tensors.find(name);
      return found == tensors.end() ? nullptr : &found->second;
    };
    return build_decoder(config, {Naming::kGguf, find, file_.mapping()}, precision);
  }
  std::string refusal() const {
    std::string said;
    for (const Precision p : {Precision::kF32, Precision::kFile}) {
      try {
        load(p);
        return "";
      } catch (const FormatError& e) {
        said = e.what();
      }
    }
    return said;
  }

 private:
  Gguf file_;  // before what is made of it

 public:
  DecoderConfig config;
  std::map<std::string, TensorView> tensors;
};

inline at::Tensor logits_of(const DecoderLm& model) {
  const c10::InferenceMode no_autograd;
  KvCache cache = model.make_cache();
  return pass(model, cache, std::vector<Token>{3, 14, 15, 92, 65}).clone();
}

}  // namespace forerun::testing
