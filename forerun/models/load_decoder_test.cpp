#include "forerun/models/load_decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "forerun/models/build_decoder.h"

namespace forerun {
namespace {

const std::string kFolder = FORERUN_SOURCE_DIR "/tests/data/tiny/llama_plain";

// Of a large model the layers are nearly all there is: what shares its ends does not read them.
TEST(LoadDecoder, OfTheEndsReadsNoLayer) {
  const HfConfig config = load_hf_config(kFolder);
  const Safetensors weights = load_safetensors(kFolder);
  std::set<std::string> read;
  const FindTensor find = [&](const std::string& name) {
    read.insert(name);
    return weights.find(name);
  };
  const auto decoder = parse_decoder_config(config.config);
  ASSERT_TRUE(decoder);
  const DecoderLm ends =
      build_decoder(*decoder, Naming::kHuggingFace, find, Precision::kF32, DecoderParts::kEnds);
  for (const std::string& name : read) EXPECT_EQ(name.find("layers"), name.npos) << name;
  EXPECT_TRUE(ends.layers.empty());
  const DecoderLm whole = load_decoder(config, weights, kFolder, Precision::kF32);
  EXPECT_FALSE(whole.layers.empty());
  EXPECT_TRUE(at::equal(ends.embedding, whole.embedding));
  EXPECT_TRUE(at::equal(ends.head(), whole.head()));
  EXPECT_TRUE(at::equal(ends.final_norm.weight, whole.final_norm.weight));
}

}  // namespace
}  // namespace forerun
