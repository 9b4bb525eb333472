// Round trip; anything that cannot be a network of this decoder is refused in one clear line.
#include "forerun/models/diffusion_lm/diffusion_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/checkpoint_copy.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

// A saved network of `name`'s first blocks.
std::string saved(const std::string& name, const testing::TempFolder& folder, bool reduced = true) {
  const std::string path = (folder.path() / name).string();
  save_diffusion_lm(path, tiny_diffusion(name, reduced), {{"made", "here"}});
  return path;
}

TEST(DiffusionFile, LoadsWhatWasSaved) {
  for (const char* name : {"llama_plain", "qwen2", "qwen3"}) {
    for (const bool reduced : {true, false}) {
      const testing::TempFolder folder;
      DiffusionLm made = tiny_diffusion(name, reduced);
      DiffusionLm read = load_diffusion_lm(saved(name, folder, reduced), tiny_decoder(name));
      const auto from = weights(made), to = weights(read);
      ASSERT_EQ(from.size(), to.size());
      for (std::size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(from[i].name, to[i].name);
        EXPECT_TRUE(at::equal(from[i].tensor->to(at::kBFloat16), to[i].tensor->to(at::kBFloat16)))
            << to[i].name;
      }
      EXPECT_TRUE(at::equal(made.embedding, read.embedding));
      EXPECT_TRUE(at::equal(made.body.embedding, read.body.embedding));
      EXPECT_EQ(made.output_tokens.defined(), read.output_tokens.defined());
      EXPECT_EQ(read.config.block, 5);
    }
  }
}

TEST(DiffusionFile, KnowsWhomTheRowsSee) {
  const testing::TempFolder folder;
  const std::string path = folder.path() / "bidirectional";
  save_diffusion_lm(path, tiny_bidirectional("llama_plain"));
  const DiffusionLm read = load_diffusion_lm(path, tiny_decoder("llama_plain"));
  EXPECT_EQ(read.config.attention, DiffusionAttention::kBidirectional);
  const testing::TempFolder other;
  EXPECT_EQ(
      load_diffusion_lm(saved("llama_plain", other), tiny_decoder("llama_plain")).config.attention,
      DiffusionAttention::kBlock);
}

TEST(DiffusionFile, KnowsTheBitsOfTheWeights) {
  const testing::TempFolder folder;
  DiffusionLm made = tiny_diffusion("qwen3", true);
  made.config.weight_bits = 4;
  save_diffusion_lm(folder.path() / "four", made);
  EXPECT_EQ(load_diffusion_lm(folder.path() / "four", tiny_decoder("qwen3")).config.weight_bits, 4);
  EXPECT_EQ(load_diffusion_lm(saved("qwen3", folder), tiny_decoder("qwen3")).config.weight_bits, 0);
}

struct DiffusionCopy : testing::CheckpointCopy {
  explicit DiffusionCopy(const testing::TempFolder& from)
      : CheckpointCopy(saved("llama_plain", from), "model.safetensors") {}
  void expect_says(const std::string& part, const char* decoder = "llama_plain") const {
    CheckpointCopy::expect_says(part, [&] {
      write();
      load_diffusion_lm(folder.path(), tiny_decoder(decoder));
    });
  }
};

TEST(DiffusionFile, RefusesWhatIsNotThisTargets) {
  const testing::TempFolder from;
  DiffusionCopy copy(from);
  copy.expect_says("use the target it was trained with", "qwen2");
  copy.config["target"] = "xxh3:0";
  copy.expect_says("made for another target of the same sizes");
  copy.config["model_type"] = "llama";
  copy.expect_says("not a diffusion language model that forerun train dlm wrote");
}

TEST(DiffusionFile, RefusesDamage) {
  const testing::TempFolder from;
  const auto says = [&](const std::string& part,
                        const std::function<void(DiffusionCopy&)>& change) {
    DiffusionCopy copy(from);
    change(copy);
    copy.expect_says(part);
  };
  says("0 blocks; the target has 3", [](auto& c) { c.config["num_hidden_layers"] = 0; });
  says("out of range", [](auto& c) { c.config["block_size"] = 1 << 30; });
  says("out of range", [](auto& c) { c.config["output_vocab_size"] = 1 << 20; });
  says("'target' is missing", [](auto& c) { c.config.erase("target"); });
  says("weights of 8 bits; 4 are supported", [](auto& c) { c.config["weight_bits"] = 8; });
  says("not multiples of 32", [](auto& c) { c.config["weight_bits"] = 4; });
  says("attention 'causal' is unknown", [](auto& c) { c.config["attention"] = "causal"; });
  says("mask_embedding", [](auto& c) { c.tensors.erase("mask_embedding"); });
  says("d2t", [](auto& c) { c.tensors.erase("d2t"); });
  says("model.layers.2", [](auto& c) {
    c.tensors["model.layers.2.x"] = c.tensors["mask_embedding"];
    c.tensors["model.layers.2.x"].name = "model.layers.2.x";
  });
}

TEST(DiffusionFile, ADecoderOfAnotherKindIsNotBegunFrom) {
  EXPECT_THROW(diffusion_from_decoder(tiny_decoder("gemma3"), 1, 4), std::invalid_argument);
  EXPECT_THROW(diffusion_from_decoder(tiny_decoder("llama_plain"), 4, 4), std::invalid_argument);
  EXPECT_THROW(diffusion_from_decoder(tiny_decoder("llama_plain"), 0, 4), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
