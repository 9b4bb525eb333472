#include "forerun/models/load_decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "forerun/models/build_decoder.h"
#include "forerun/models/decoder_config_gguf.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

const std::string kPlain = FORERUN_SOURCE_DIR "/tests/data/tiny/llama_plain";

// Of a large model the layers are nearly all there is: what shares its ends does not read them.
TEST(LoadDecoder, OfTheEndsReadsNoLayer) {
  const HfConfig config = load_hf_config(kPlain);
  const Safetensors weights = load_safetensors(kPlain);
  std::set<std::string> read;
  const FindTensor find = [&](const std::string& name) {
    read.insert(name);
    return weights.find(name);
  };
  const auto decoder = parse_decoder_config(config.config);
  ASSERT_TRUE(decoder);
  const DecoderLm ends =
      build_decoder(*decoder, {Naming::kHuggingFace, find}, Precision::kF32, DecoderParts::kEnds);
  for (const std::string& name : read) EXPECT_EQ(name.find("layers"), name.npos) << name;
  EXPECT_TRUE(ends.layers.empty());
  const DecoderLm whole = load_decoder(config, weights, kPlain, Precision::kF32);
  EXPECT_FALSE(whole.layers.empty());
  EXPECT_TRUE(at::equal(ends.embedding, whole.embedding));
  EXPECT_TRUE(at::equal(ends.head(), whole.head()));
  EXPECT_TRUE(at::equal(ends.final_norm.weight, whole.final_norm.weight));
}

// Weights that stay in their file: the logits are those of float32, of every family and format.
TEST(LoadDecoder, InTheFormOfTheFileGivesTheSameLogits) {
  for (const char* name :
       {"llama",        "llama_plain",     "qwen2",     "qwen3",   "gemma3",   "gemma3_softcap",
        "mistral_yarn", "gemma3_pictures", "qwen3_moe", "mixtral", "smollm3",  "gemma2",
        "phi3",         "phi3_window",     "granite",   "olmo2",   "olmo3",    "glm4",
        "gpt_oss",      "gpt_oss_mxfp4",   "qwen2_moe", "olmoe",   "glm4_moe", "glm4_moe_groups",
        "granite_moe",  "ernie",           "lfm2",      "qwen3_5", "lfm2_moe", "qwen3_next_experts",
        "qwen3_5_moe"}) {
    const std::string folder = kTiny + name;
    const auto logits = [&](const DecoderLm& m) {
      KvCache cache = m.make_cache();
      std::vector<Token> text;
      for (Token i = 0; i < 40; ++i) text.push_back((i * i * 7 + 3) % 150);
      return pass(m, cache, text);
    };
    const auto from_folder = [&](Precision p) {
      return load_decoder(load_hf_config(folder), load_safetensors(folder), folder, p);
    };
    const auto from_gguf = [&](Precision p) {
      return load_decoder(load_gguf(folder + "/model.gguf"), p);
    };
    const DecoderLm stored = from_gguf(Precision::kFile);
    EXPECT_FALSE(stored.embedding.defined());
    EXPECT_FALSE(stored.layers[0].gate.weight.defined());
    EXPECT_GT(stored.weight_bytes(), 0);
    EXPECT_LT(distance(logits(stored), logits(from_gguf(Precision::kF32))), 1e-4) << name;
    EXPECT_LT(distance(logits(from_folder(Precision::kFile)), logits(from_folder(Precision::kF32))),
              1e-4)
        << name;
  }
}

// Files of Mixtral from before all experts of a layer had one tensor.
TEST(LoadDecoder, ReadsAGgufFileWithATensorForEachExpert) {
  const Gguf file = load_gguf(kTiny + "mixtral/model.gguf");
  const DecoderConfig config = *parse_decoder_config(file);
  std::map<std::string, TensorView> parts;
  for (const TensorView& t : file.tensors()) {
    const std::size_t all = t.name.find("_exps.");
    if (all == std::string::npos) continue;
    const std::size_t bytes = t.bytes.size() / 4;
    for (std::size_t e = 0; e < 4; ++e) {
      TensorView one = t;
      one.name.replace(all, 5, "." + std::to_string(e));
      one.shape.erase(one.shape.begin());
      one.bytes = t.bytes.subspan(e * bytes, bytes);
      parts[one.name] = one;
    }
  }
  EXPECT_TRUE(parts.contains("blk.1.ffn_gate.3.weight"));
  const FindTensor find = [&](const std::string& name) -> const TensorView* {
    const auto found = parts.find(name);
    if (found != parts.end()) return &found->second;
    return name.find("_exps.") == std::string::npos ? file.find(name) : nullptr;
  };
  const std::vector<Token> text = {3, 14, 15, 92, 65};
  for (const Precision p : {Precision::kF32, Precision::kInt8, Precision::kFile}) {
    if (p == Precision::kInt8 && !cpu_features().int8()) continue;
    const DecoderLm older = build_decoder(config, {Naming::kGguf, find, file.mapping()}, p);
    const DecoderLm newer = load_decoder(file, p);
    KvCache a = older.make_cache(), b = newer.make_cache();
    EXPECT_TRUE(at::equal(pass(older, a, text), pass(newer, b, text))) << name_of(p);
  }
  parts.erase("blk.1.ffn_up.2.weight");
  try {
    build_decoder(config, {Naming::kGguf, find}, Precision::kF32);
    FAIL() << "did not throw";
  } catch (const FormatError& missing) {
    EXPECT_NE(std::string(missing.what()).find("'blk.1.ffn_up_exps.weight' is missing"),
              std::string::npos)
        << missing.what();
  }
}

// Both names that multimodal models have had.
TEST(LoadDecoder, ReadsTheNewerNamesOfPicturesAndTexts) {
  const std::string folder = kTiny + "gemma3_pictures";
  const HfConfig config = load_hf_config(folder);
  const Safetensors older = load_safetensors(folder);
  constexpr std::string_view kTexts = "language_model.model.";
  std::vector<TensorView> renamed = older.tensors();
  for (TensorView& t : renamed) {
    const bool texts = t.name.starts_with(kTexts);
    t.name = texts ? "model.language_model." + t.name.substr(kTexts.size()) : "model." + t.name;
  }
  const Safetensors newer(renamed, {});
  const Safetensors e = load_safetensors(folder + "/expected.safetensors");
  const DecoderLm model = load_decoder(config, newer, folder, Precision::kF32);
  KvCache cache = model.make_cache();
  EXPECT_LT(distance(pass(model, cache, tokens_of(e, "tokens_0")), tensor_of(e, "logits_0")), 1e-4);
  try {
    load_decoder(config, Safetensors({}, {}), folder, Precision::kF32);
    FAIL() << "did not throw";
  } catch (const FormatError& missing) {
    EXPECT_NE(std::string(missing.what()).find("'model.language_model.embed_tokens.weight'"),
              std::string::npos)
        << missing.what();
  }
}

}  // namespace
}  // namespace forerun
