// Files that do not match their config are refused in one clear line.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "forerun/core/rng_key.h"
#include "forerun/formats/safetensors_write.h"
#include "forerun/models/vae/vae.h"
#include "tests/support/checkpoint_copy.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using nlohmann::json;

constexpr const char* kFile = "diffusion_pytorch_model.safetensors";
const std::string kVae = FORERUN_SOURCE_DIR "/tests/data/vae/";

using testing::thrown_by;

struct Copy : testing::CheckpointCopy {
  explicit Copy(const std::string& which = "two_levels") : CheckpointCopy(kVae + which, kFile) {}
  void rename(const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    node.key() = node.mapped().name = to;
    tensors.insert(std::move(node));
  }
  VaeDecoder load() const {
    write();
    return load_vae(folder.path());
  }
  void expect_says(const std::string& part) const {
    CheckpointCopy::expect_says(part, [&] { load(); });
  }
};

at::Tensor image_of(const VaeDecoder& vae) {
  const Safetensors e = load_safetensors(kVae + "two_levels/expected.safetensors");
  return decode(vae, tensor_of(e, "latents"));
}

TEST(VaeFile, TakesOlderNamesOfTheAttention) {
  const at::Tensor expected = image_of(load_vae(kVae + "two_levels"));
  Copy copy;
  for (const char* part : {"weight", "bias"}) {
    const std::string a = "decoder.mid_block.attentions.0.";
    copy.rename(a + "to_q." + part, a + "query." + part);
    copy.rename(a + "to_k." + part, a + "key." + part);
    copy.rename(a + "to_v." + part, a + "value." + part);
    copy.rename(a + "to_out.0." + part, a + "proj_attn." + part);
  }
  EXPECT_TRUE(at::equal(image_of(copy.load()), expected));
}

TEST(VaeFile, LeavesTheEncoderAlone) {
  Copy copy;
  const at::Tensor expected = image_of(copy.load());
  std::erase_if(copy.tensors, [](const auto& t) {
    return t.first.starts_with("encoder.") || t.first.starts_with("quant_conv.");
  });
  ASSERT_LT(copy.tensors.size(), copy.file.tensors().size());
  EXPECT_TRUE(at::equal(image_of(copy.load()), expected));
}

TEST(VaeFile, FindsTheDecoderOfAPipeline) {
  const testing::TempFolder folder;
  folder.write("model_index.json", "{}");
  const std::string message = thrown_by([&] { load_vae(folder.path()); });
  EXPECT_NE(message.find("/vae: is not a folder"), std::string::npos) << message;
  std::filesystem::copy(kVae + "two_levels", folder.path() / "vae");
  EXPECT_TRUE(
      at::equal(image_of(load_vae(folder.path())), image_of(load_vae(kVae + "two_levels"))));
}

TEST(VaeFile, RefusesMissingUnknownAndMisshapenTensors) {
  Copy missing;
  missing.tensors.erase("decoder.up_blocks.1.resnets.0.conv_shortcut.weight");
  missing.expect_says("'decoder.up_blocks.1.resnets.0.conv_shortcut.weight' is missing");
  Copy attention;
  attention.tensors.erase("decoder.mid_block.attentions.0.to_out.0.bias");
  attention.expect_says("'decoder.mid_block.attentions.0.to_out.0.bias' is missing");
  Copy shape;
  shape.tensors["decoder.conv_in.weight"].shape = {12, 3, 9, 1};
  shape.expect_says(
      "'decoder.conv_in.weight' has shape [12, 3, 9, 1], the config's sizes ask for [12, 3, 3, 3]");
  Copy unknown;
  unknown.tensors["decoder.up_blocks.2.x"] = unknown.tensors.at("decoder.conv_out.bias");
  unknown.tensors["decoder.up_blocks.2.x"].name = "decoder.up_blocks.2.x";
  unknown.expect_says("'decoder.up_blocks.2.x' has no place in the decoder");
  Copy fewer;
  fewer.config["layers_per_block"] = 1;
  fewer.expect_says("has no place in the decoder that config.json describes");
  Copy more;
  more.config["layers_per_block"] = 3;
  more.expect_says("resnets.3.norm1.weight' is missing");
}

TEST(VaeFile, RefusesHalfAFileAndWhatIsNoNumber) {
  const Copy copy;
  copy.load();
  const std::string whole = testing::read_file(copy.folder.path() / kFile);
  copy.folder.write(kFile, whole.substr(0, whole.size() / 2));
  const std::string message = thrown_by([&] { load_vae(copy.folder.path()); });
  EXPECT_NE(message.find("bytes are missing; download it again"), std::string::npos) << message;
  std::filesystem::remove(copy.folder.path() / kFile);
  EXPECT_NE(thrown_by([&] { load_vae(copy.folder.path()); }).find(kFile), std::string::npos);
  std::filesystem::remove(copy.folder.path() / "config.json");
  EXPECT_NE(thrown_by([&] { load_vae(copy.folder.path()); }).find("config.json"),
            std::string::npos);

  Copy broken;
  const std::vector<float> values(3, std::numeric_limits<float>::infinity());
  broken.tensors["decoder.conv_out.bias"] = {
      "decoder.conv_out.bias", DType::kF32, {3}, std::as_bytes(std::span(values))};
  broken.expect_says("'decoder.conv_out.bias' holds values that are no numbers");
  const std::vector<std::int32_t> ids(3, 1);
  broken.tensors["decoder.conv_out.bias"] = {
      "decoder.conv_out.bias", DType::kI32, {3}, std::as_bytes(std::span(ids))};
  broken.expect_says("holds I32 where weights are expected");
}

TEST(VaeFile, RefusesOtherNetworksAndOptions) {
  const auto expect = [](const char* key, const json& value, const char* part) {
    Copy copy;
    copy.config[key] = value;
    copy.expect_says(part);
  };
  expect("_class_name", "AutoencoderTiny", "this describes a 'AutoencoderTiny'");
  expect("_class_name", 3, "where a string is expected");
  expect("act_fn", "gelu", "activation 'gelu' is not supported");
  expect("out_channels", 1, "'out_channels' other than 3");
  expect("shift_factor", 0.0609, "'shift_factor' is not supported");
  expect("latents_mean", {0.0, 0.1, 0.2}, "'latents_mean' is not supported");
  expect("latents_std", {1.0, 1.0, 1.0}, "'latents_std' is not supported");
  expect("use_post_quant_conv", false, "'use_post_quant_conv': false is not supported");
  expect("mid_block_add_attention", false, "'mid_block_add_attention': false is not supported");
  expect("up_block_types", {"UpDecoderBlock2D", "AttnUpDecoderBlock2D"},
         "a block of type 'AttnUpDecoderBlock2D' is not supported");
  expect("up_block_types", {"UpDecoderBlock2D"}, "does not list 2 levels");
  expect("block_out_channels", nullptr, "'block_out_channels' is no list");
  expect("block_out_channels", json::array(), "'block_out_channels' is no list");
  expect("block_out_channels", {4, "12"}, "'block_out_channels' holds \"12\"");
  expect("block_out_channels", {4, 0}, "'block_out_channels' holds 0");
  expect("block_out_channels", {4, 1 << 30}, "which is no width");
  expect("layers_per_block", 0, "0 layers a block");
  expect("layers_per_block", 1e9, "where an integer is expected");
  expect("layers_per_block", 1 << 30, "layers a block; 1 to 64");
  expect("latent_channels", -4, "-4 latent channels");
  expect("norm_num_groups", 0, "cannot be normed in 0 groups");
  expect("norm_num_groups", 3, "4 channels cannot be normed in 3 groups");
  expect("scaling_factor", 0, "a scaling factor of 0");
  expect("scaling_factor", -1.0, "it must be positive");
  expect("scaling_factor", "x", "a number is expected");
}

TEST(VaeFile, AbsentFieldsAreWhatDiffusersTakes) {
  const Result<VaeConfig> c = parse_vae_config({{"block_out_channels", {32, 64}}});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(*c, (VaeConfig{.latent_channels = 4,
                           .channels = {32, 64},
                           .layers = 1,
                           .norm_groups = 32,
                           .scaling_factor = 0.18215}));
  EXPECT_EQ(c->scale(), 2);
}

TEST(VaeFile, MutatedConfigsAreReadOrRefused) {
  const testing::Bytes seed =
      testing::bytes_of(testing::read_file(kVae + "four_levels/config.json"));
  testing::SplitMix64 rng{5};
  for (int i = 0; i < 2000; ++i) {
    const testing::Bytes mutant = testing::mutate(seed, rng);
    const json config = json::parse(testing::text_of(mutant), nullptr, false);
    if (config.is_discarded()) continue;
    if (const Result<VaeConfig> c = parse_vae_config(config)) {
      EXPECT_GE(c->scale(), 1);
    } else {
      EXPECT_EQ(c.error().message.find('\n'), std::string::npos) << c.error().message;
    }
  }
}

}  // namespace
}  // namespace forerun
