// Decoder and encoder compute what diffusers computes (tools/make_dit_values.py --vae).
#include "forerun/models/vae/vae.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "forerun/formats/whole_numbers.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

const std::string kVaeFolder = FORERUN_SOURCE_DIR "/tests/data/vae/";
const std::vector<std::string> kCases = {"four_levels", "two_levels"};

Safetensors expected_of(const std::string& name) {
  return load_safetensors(kVaeFolder + name + "/expected.safetensors");
}

TEST(Vae, DecodesAsDiffusersDoes) {
  for (const std::string& name : kCases) {
    const Safetensors e = expected_of(name);
    const at::Tensor out = decode(load_vae(kVaeFolder + name), tensor_of(e, "latents"));
    EXPECT_EQ(out.scalar_type(), at::kFloat);
    EXPECT_LT(distance(out, tensor_of(e, "image")), 1e-4) << name;
  }
}

TEST(Vae, EveryWeightIsUsed) {
  for (const std::string& name : kCases) {
    VaeDecoder vae = load_vae(kVaeFolder + name);
    const at::Tensor latents = tensor_of(expected_of(name), "latents");
    const at::Tensor whole = decode(vae, latents);
    for (const ModelWeight& w : weights(vae)) {
      if (w.name.ends_with("to_k.bias")) continue;  // equal for all keys: the softmax cancels it
      const at::Tensor kept = *w.tensor;
      *w.tensor = at::zeros_like(kept);
      EXPECT_GT(distance(decode(vae, latents), whole), 1e-2) << name << ' ' << w.name;
      *w.tensor = kept;
    }
  }
}

TEST(Vae, OtherPrecisionsStayClose) {
  const Safetensors e = expected_of("four_levels");
  const at::Tensor latents = tensor_of(e, "latents"), image = tensor_of(e, "image");
  const at::Tensor exact = decode(load_vae(kVaeFolder + "four_levels", at::kDouble), latents);
  EXPECT_LT(distance(exact, image), 1e-4);
  const at::Tensor coarse = decode(load_vae(kVaeFolder + "four_levels", at::kBFloat16), latents);
  EXPECT_EQ(coarse.scalar_type(), at::kFloat);
  EXPECT_LT((coarse - image).square().mean().sqrt().item<double>(), 0.05);
  EXPECT_THROW(load_vae(kVaeFolder + "four_levels", at::kHalf), std::invalid_argument);
}

TEST(Vae, AnImageDoesNotDependOnItsBatch) {
  const VaeDecoder vae = load_vae(kVaeFolder + "four_levels");
  const at::Tensor latents = tensor_of(expected_of("four_levels"), "latents");
  const at::Tensor both = decode(vae, latents);
  EXPECT_TRUE(at::equal(decode(vae, latents.narrow(0, 1, 1)), both.narrow(0, 1, 1)));
  // Nor on the memory layout of the latents.
  const at::Tensor turned = latents.transpose(2, 3).contiguous().transpose(2, 3);
  EXPECT_TRUE(at::equal(decode(vae, turned), both));
}

TEST(Vae, RefusesLatentsOfAnotherKind) {
  const VaeDecoder vae = load_vae(kVaeFolder + "two_levels");
  for (const at::Tensor& bad :
       {at::Tensor(), at::zeros({3, 4, 4}), at::zeros({1, 4, 4, 4}), at::zeros({0, 3, 4, 4}),
        at::zeros({1, 3, 0, 4}), at::zeros({1, 3, 4, 4}, at::kLong)}) {
    EXPECT_THROW(decode(vae, bad), std::invalid_argument);
  }
  EXPECT_EQ(decode(vae, at::zeros({1, 3, 1, 1})).sizes(), (std::vector<std::int64_t>{1, 3, 2, 2}));
}

TEST(VaeEncoder, EncodesAsDiffusersDoes) {
  for (const std::string& name : kCases) {
    const Safetensors e = expected_of(name);
    const LatentLaw law = encode(load_vae_encoder(kVaeFolder + name), tensor_of(e, "photo"));
    EXPECT_EQ(law.mean.scalar_type(), at::kFloat);
    EXPECT_LT(distance(law.mean, tensor_of(e, "mean")), 1e-4) << name;
    EXPECT_LT(distance(law.deviation, tensor_of(e, "deviation")), 1e-4) << name;
  }
}

// Levels with attention: the published autoencoder of MAR, by its own names
// (tools/make_mar_values.py).
TEST(VaeEncoder, AttendsInTheLevelsThatTheConfigNames) {
  const std::string folder = FORERUN_SOURCE_DIR "/tests/data/mar/kl";
  const Safetensors e = load_safetensors(folder + "/expected.safetensors");
  const LatentLaw law = encode(load_vae_encoder(folder), tensor_of(e, "photo"));
  EXPECT_LT(distance(law.mean, tensor_of(e, "mean")), 1e-4);
  EXPECT_LT(distance(law.deviation, tensor_of(e, "deviation")), 1e-4);
}

TEST(VaeEncoder, EveryWeightIsUsed) {
  VaeEncoder vae = load_vae_encoder(FORERUN_SOURCE_DIR "/tests/data/mar/kl");
  const at::Tensor photo = tensor_of(
      load_safetensors(FORERUN_SOURCE_DIR "/tests/data/mar/kl/expected.safetensors"), "photo");
  const LatentLaw whole = encode(vae, photo);
  for (const ModelWeight& w : weights(vae)) {
    if (w.name.ends_with("to_k.bias")) continue;  // equal for all keys: the softmax cancels it
    // The finest level has one channel a group: the norm after it takes a bias away.
    if (w.name.starts_with("encoder.down_blocks.0.") && w.name.ends_with("conv1.bias")) continue;
    const at::Tensor kept = *w.tensor;
    *w.tensor = at::zeros_like(kept);
    const LatentLaw without = encode(vae, photo);
    EXPECT_GT(distance(without.mean, whole.mean) + distance(without.deviation, whole.deviation),
              1e-3)
        << w.name;
    *w.tensor = kept;
  }
}

TEST(VaeEncoder, AnImageDoesNotDependOnItsBatch) {
  const VaeEncoder vae = load_vae_encoder(kVaeFolder + "four_levels");
  const at::Tensor photo = tensor_of(expected_of("four_levels"), "photo");
  const at::Tensor both = encode(vae, photo).mean;
  EXPECT_TRUE(at::equal(encode(vae, photo.narrow(0, 1, 1)).mean, both.narrow(0, 1, 1)));
}

TEST(VaeEncoder, RefusesImagesOfAnotherKind) {
  const VaeEncoder vae = load_vae_encoder(kVaeFolder + "two_levels");
  for (const at::Tensor& bad :
       {at::Tensor(), at::zeros({3, 4, 4}), at::zeros({1, 1, 4, 4}), at::zeros({0, 3, 4, 4}),
        at::zeros({1, 3, 3, 4}), at::zeros({1, 3, 4, 4}, at::kLong)}) {
    EXPECT_THROW(encode(vae, bad), std::invalid_argument);
  }
}

TEST(ImageBytes, AreThePublishedOnes) {
  for (const std::string& name : kCases) {
    const Safetensors e = expected_of(name);
    const at::Tensor bytes = image_bytes(tensor_of(e, "image"));
    const TensorView* theirs = e.find("bytes");
    ASSERT_NE(theirs, nullptr);
    const at::Tensor expected = at::tensor(*whole_numbers(*theirs), at::kLong).view(theirs->shape);
    EXPECT_EQ(bytes.scalar_type(), at::kByte);
    EXPECT_TRUE(bytes.is_contiguous());
    EXPECT_TRUE(at::equal(bytes.permute({0, 3, 1, 2}).to(at::kLong), expected)) << name;
  }
}

TEST(ImageBytes, CutTheFractionOffAndClamp) {
  const at::Tensor x = at::tensor({-9.0, -1.0, -1.0 / 255, 0.0, 0.999, 1.0, 9.0}, at::kFloat);
  const at::Tensor bytes = image_bytes(x.view({1, 1, 1, 7})).flatten().to(at::kLong);
  EXPECT_TRUE(at::equal(bytes, at::tensor({0, 0, 127, 128, 255, 255, 255}, at::kLong))) << bytes;
}

TEST(ImageBytes, RefuseWhatIsNoImage) {
  EXPECT_THROW(image_bytes(at::Tensor()), std::invalid_argument);
  EXPECT_THROW(image_bytes(at::zeros({3, 4, 4})), std::invalid_argument);
  EXPECT_THROW(image_bytes(at::zeros({1, 3, 4, 4}, at::kLong)), std::invalid_argument);
  EXPECT_THROW(image_bytes(at::full({1, 3, 2, 2}, std::nan(""))), std::invalid_argument);
  EXPECT_THROW(image_bytes(at::full({1, 3, 2, 2}, std::numeric_limits<double>::infinity())),
               std::invalid_argument);
}

}  // namespace
}  // namespace forerun
