// Round trip; anything that cannot be heads of this target is refused in one clear line.
#include "forerun/models/medusa/medusa_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "forerun/formats/hf_config.h"
#include "forerun/formats/whole_numbers.h"
#include "forerun/models/medusa/medusa_config_json.h"
#include "tests/support/checkpoint_copy.h"
#include "tests/support/distance.h"
#include "tests/support/medusa_values.h"
#include "tests/support/mutate.h"
#include "tests/support/random_medusa.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

struct MedusaCopy : testing::CheckpointCopy {
  explicit MedusaCopy(const std::string& which = "markov")
      : CheckpointCopy(kMedusaData + which, "model.safetensors") {}
  Medusa load(const DecoderLm& target = medusa_target()) const {
    write();
    return load_medusa(folder.path(), target);
  }
  void expect_says(const std::string& part, const DecoderLm& target = medusa_target()) const {
    CheckpointCopy::expect_says(part, [&] { load(target); });
  }
  /// Of a folder that is as it is.
  void expect_says_unwritten(const std::string& part) const {
    CheckpointCopy::expect_says(part, [&] { load_medusa(folder.path(), medusa_target()); });
  }
};

// A folder with a key of its config changed is refused.
void expect_medusa_refused(const std::string& key, const nlohmann::json& value,
                           const std::string& part, const std::string& which = "markov") {
  SCOPED_TRACE(key + " " + value.dump());
  MedusaCopy copy(which);
  copy.config[key] = value;
  copy.expect_says(part);
}

TEST(MedusaFile, RefusesHeadsOfAnotherTarget) {
  const MedusaCopy copy;
  EXPECT_NO_THROW(copy.load());
  DecoderLm wider = medusa_target(), larger = medusa_target();
  wider.config.hidden = 576;
  larger.config.vocab = 49152;
  copy.expect_says(
      "made for a target of hidden size 24 and vocabulary 64, this one has 576 and 64; use the "
      "target they were trained with",
      wider);
  copy.expect_says("this one has 24 and 49152", larger);
  copy.expect_says("made for a target of 9 layers, this one has 8", medusa_target(8));
}

TEST(MedusaFile, RefusesFeatureLayersOutsideTheTarget) {
  const auto expect = [](const nlohmann::json& layers, const std::string& part) {
    expect_medusa_refused("target_layer_ids", layers, part);
  };
  expect(nlohmann::json::array({1, 4, 8}),
         "feature layer 8 (zero-based) lies outside 0 to 7 of the target's 9 layers");
  expect(nlohmann::json::array({-1, 4, 6}), "feature layer -1");
  expect(nlohmann::json::array({1, 4, INT64_MAX}), "feature layer 9223372036854775807");
  expect(nlohmann::json::array({1, 4, UINT64_MAX}), "holds something else than ids");
  expect(nlohmann::json::array(), "0 feature layers; 1 to 64 are supported");
  expect(nlohmann::json(std::vector<int>(65, 1)), "has 65 entries; at most 64 are supported");
  expect(nlohmann::json::array({1, 4}),
         "'fc.weight' has shape [32, 96], the config's sizes ask for [32, 72]");
  expect(nlohmann::json::array({1, 4, 6, 7}), "tensor 'feature_norms.3.weight' is missing");
  expect(nlohmann::json::array({1, "4", 6}), "'target_layer_ids' holds something else than ids");
  expect(nlohmann::json::array({1, 4.5, 6}), "'target_layer_ids' holds something else than ids");
  expect(nlohmann::json::array({1, nullptr, 6}), "holds something else than ids");
  expect(3, "'target_layer_ids' is no list");
  expect(nullptr, "'target_layer_ids' is no list");
}

TEST(MedusaFile, RefusesOtherKindsOfFolders) {
  const std::string says = "it does not describe Medusa heads of forerun train medusa";
  expect_medusa_refused("architectures", nlohmann::json::array({"DFlashDraftModel"}), says);
  expect_medusa_refused("architectures", nlohmann::json::array({7}), says);
  expect_medusa_refused("architectures", nlohmann::json::array(), says);
  expect_medusa_refused("architectures", "ForerunMedusa", says);
  expect_medusa_refused("architectures", nullptr, says);
  MedusaCopy decoder;
  decoder.config = {{"architectures", {"LlamaForCausalLM"}}, {"hidden_size", 24}};
  decoder.expect_says(says);
  MedusaCopy list;
  list.config = nlohmann::json::array();
  list.expect_says("holds a JSON array, expected an object");
  const MedusaCopy none;  // nothing is written yet
  none.expect_says_unwritten("config.json");
  none.folder.write("config.json", none.config.dump());
  none.expect_says_unwritten("its weights are missing");
  const std::string nowhere =
      testing::thrown_by([] { load_medusa("/no/such/folder", medusa_target()); });
  EXPECT_EQ(nowhere.rfind("/no/such/folder: is not a folder", 0), 0U) << nowhere;
}

TEST(MedusaFile, RefusesMissingAndMistypedFields) {
  for (const char* key : {"hidden_size", "vocab_size", "num_target_layers", "medusa_width",
                          "intermediate_size", "medusa_num_heads", "draft_vocab_size"}) {
    MedusaCopy missing;
    missing.config.erase(key);
    missing.expect_says("'" + std::string(key) + "' is missing");
    expect_medusa_refused(key, nullptr, "is missing");
    for (const nlohmann::json& value :
         {nlohmann::json("24"), nlohmann::json(24.0), nlohmann::json(true),
          nlohmann::json::array({24}), nlohmann::json::object(), nlohmann::json(UINT64_MAX)}) {
      expect_medusa_refused(key, value, "where an integer is expected");
    }
  }
  for (const char* key : {"markov_rank", "weight_bits"}) {
    expect_medusa_refused(key, "4", "where an integer is expected");
    expect_medusa_refused(key, 4.0, "where an integer is expected");
  }
  expect_medusa_refused("rms_norm_eps", "1e-6", "where a number is expected");
}

TEST(MedusaFile, RefusesSizesThatCannotBe) {
  for (const char* key : {"hidden_size", "medusa_width", "intermediate_size"}) {
    for (const std::int64_t size :
         {std::int64_t{0}, std::int64_t{-24}, INT64_MIN, INT64_MAX, std::int64_t{(1 << 20) + 1}}) {
      expect_medusa_refused(key, size, "; 1 to 1048576 are supported");
    }
  }
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{-64}, INT64_MIN, INT64_MAX, std::int64_t{(1 << 24) + 1}}) {
    expect_medusa_refused("vocab_size", size, "; 1 to 16777216 are supported");
  }
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{65}, INT64_MIN, INT64_MAX}) {
    expect_medusa_refused("draft_vocab_size", size,
                          "a draft vocabulary of " + std::to_string(size) + " inside one of 64");
    expect_medusa_refused("medusa_num_heads", size,
                          std::to_string(size) + " heads; 1 to 64 are supported");
  }
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{(1 << 16) + 1}, INT64_MIN, INT64_MAX}) {
    expect_medusa_refused("markov_rank", size, "a Markov head of rank " + std::to_string(size));
  }
  for (const std::int64_t layers : {std::int64_t{0}, std::int64_t{-9}, INT64_MAX}) {
    expect_medusa_refused("num_target_layers", layers,
                          "made for a target of " + std::to_string(layers) + " layers");
  }
  for (const double eps : {0.0, -1e-6, 1.0, 1e300}) {
    expect_medusa_refused("rms_norm_eps", eps, "rms_norm_eps is not between 0 and 1");
  }
  expect_medusa_refused("weight_bits", 3, "weights of 3 bits; 4 are supported");
  expect_medusa_refused("weight_bits", -4, "weights of -4 bits; 4 are supported");
  expect_medusa_refused("weight_bits", 4, "inputs are not multiples of 32");
}

// Sizes that could be, but not of these tensors: nothing is allocated by the config alone.
TEST(MedusaFile, RefusesSizesThatAreNotThoseOfTheTensors) {
  expect_medusa_refused("medusa_width", 33,
                        "'fc.weight' has shape [32, 96], the config's sizes ask for [33, 96]");
  expect_medusa_refused("medusa_width", 1 << 20, "ask for [1048576, 96]");
  expect_medusa_refused("intermediate_size", 1 << 20,
                        "'mlp.gate_proj.weight' has shape [64, 32], the config's sizes ask for "
                        "[1048576, 32]");
  expect_medusa_refused("medusa_num_heads", 2,
                        "'heads.weight' has shape [96, 32], the config's sizes ask for [64, 32]");
  expect_medusa_refused("medusa_num_heads", 64, "ask for [2048, 32]");
  expect_medusa_refused("draft_vocab_size", 30,
                        "'lm_head.weight' has shape [40, 32], the config's sizes ask for [30, 32]");
  expect_medusa_refused("markov_rank", 5,
                        "'markov_head.markov_w1.weight' has shape [64, 6], the config's sizes ask "
                        "for [64, 5]");
  expect_medusa_refused("markov_rank", 0,
                        "2 tensors are unknown, the first is 'markov_head.markov_w1.weight'");
  expect_medusa_refused("markov_rank", 6, "tensor 'markov_head.markov_w1.weight' is missing",
                        "plain");
  expect_medusa_refused("draft_vocab_size", 64, "'lm_head.weight' has shape [40, 32]");
}

TEST(MedusaFile, RefusesMissingAndUnknownTensors) {
  for (const std::string which : {"markov", "plain"}) {
    const MedusaCopy whole(which);
    for (const auto& [name, tensor] : whole.tensors) {
      MedusaCopy lacking(which);
      lacking.tensors.erase(name);
      lacking.expect_says("tensor '" + name + "' is missing");
    }
  }
  for (const std::string name :
       {"feature_norms.3.weight", "head_norms.3.weight", "embed_tokens.weight", "fc.bias", "x"}) {
    MedusaCopy more;
    more.tensors[name] = more.tensors.at("norm.weight");
    more.tensors[name].name = name;
    more.expect_says("1 tensors are unknown, the first is '" + name + "'");
  }
  MedusaCopy prefixed;
  prefixed.tensors["norm.weight"].name = "model.norm.weight";
  prefixed.expect_says("tensor 'norm.weight' is missing");
}

TEST(MedusaFile, RefusesTensorsOfAnotherShape) {
  const MedusaCopy whole;
  for (const auto& [name, tensor] : whole.tensors) {
    MedusaCopy other;
    other.tensors[name].shape.insert(other.tensors[name].shape.begin(), 1);
    other.expect_says("tensor '" + name + "' has shape [1, ");
  }
  MedusaCopy turned;  // as many numbers
  turned.tensors["fc.weight"].shape = {96, 32};
  turned.expect_says("'fc.weight' has shape [96, 32], the config's sizes ask for [32, 96]");
}

TEST(MedusaFile, RefusesWhatIsNoNumber) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    MedusaCopy broken;
    std::vector<float> values(32, 1.0F);
    values[31] = value;
    broken.tensors["head_norms.2.weight"] = {
        "head_norms.2.weight", DType::kF32, {32}, std::as_bytes(std::span(values))};
    broken.expect_says("'head_norms.2.weight' holds values that are no numbers");
  }
  MedusaCopy whole;
  const std::vector<std::int32_t> ids(32, 1);
  whole.tensors["norm.weight"] = {"norm.weight", DType::kI32, {32}, std::as_bytes(std::span(ids))};
  whole.expect_says("'norm.weight' holds I32 where weights are expected");
}

TEST(MedusaFile, RefusesDraftVocabulariesThatContradictThemselves) {
  const auto with = [](std::size_t index, std::int64_t value) {
    MedusaCopy copy;
    std::vector<std::int64_t> offsets = *whole_numbers(copy.tensors.at("d2t"));
    offsets.at(index) = value;
    copy.tensors["d2t"].bytes = std::as_bytes(std::span(offsets));
    copy.expect_says("d2t maps row " + std::to_string(index) +
                     " of the head outside a rising order below 64; the file is damaged");
  };
  with(39, 25);        // token 64
  with(0, -1);         // token -1
  with(1, 0);          // that of row 0
  with(20, -20);       // one before those of other rows
  with(3, INT64_MAX);  // beyond all numbers
  with(0, INT64_MIN);
  MedusaCopy flags;
  const std::vector<std::uint8_t> none(64, 0);
  flags.tensors["t2d"] = {"t2d", DType::kBool, {64}, std::as_bytes(std::span(none))};
  flags.expect_says("d2t and t2d name different tokens");
  MedusaCopy weights;
  const std::vector<float> values(40, 0.0F);
  weights.tensors["d2t"] = {"d2t", DType::kF32, {40}, std::as_bytes(std::span(values))};
  weights.expect_says("d2t");
  // Of all tokens d2t may be there, if it names them all.
  MedusaCopy all("plain");
  std::vector<std::int64_t> offsets(64, 0);
  all.tensors["d2t"] = {"d2t", DType::kI64, {64}, std::as_bytes(std::span(offsets))};
  EXPECT_FALSE(all.load().draft_to_target.defined());
  offsets[63] = 1;
  all.expect_says("d2t maps row 63 of the head outside");
}

TEST(MedusaFile, RefusesPartsOfFiles) {
  const MedusaCopy copy;
  copy.write();
  for (const std::string name : {"model.safetensors", "config.json"}) {
    const std::string whole = testing::read_file(copy.folder.path() / name);
    ASSERT_GT(whole.size(), 200U);
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100},
                                   whole.size() / 2, whole.size() - 3}) {
      SCOPED_TRACE(name + " " + std::to_string(size));
      copy.folder.write(name, whole.substr(0, size));
      copy.expect_says_unwritten(name);
    }
    copy.folder.write(name, whole);
  }
  EXPECT_NO_THROW(load_medusa(copy.folder.path(), medusa_target()));
}

TEST(MedusaFile, AbsentFieldsHaveTheirUsualValues) {
  MedusaCopy copy("plain");
  for (const char* key : {"markov_rank", "rms_norm_eps", "weight_bits", "model_type", "dtype"}) {
    copy.config.erase(key);
  }
  const MedusaConfig c = copy.load().config;
  EXPECT_EQ(c.markov_rank, 0);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.weight_bits, 0);
}

TEST(MedusaFile, TensorsHaveTheTypeThatIsAskedFor) {
  const DecoderLm target = medusa_target();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    Medusa m = load_medusa(kMedusaData + "markov", target, type);
    for (const ModelWeight& w : weights(m)) EXPECT_EQ(w.tensor->scalar_type(), type) << w.name;
    EXPECT_TRUE(m.embedding.is_same(target.embedding));
    EXPECT_EQ(m.draft_to_target.scalar_type(), at::kLong);
  }
}

class MedusaSaved : public ::testing::TestWithParam<bool> {};

TEST_P(MedusaSaved, IsLoaded) {
  MedusaConfig c = small_medusa();
  c.feature_layers = {6, 0, 3};
  c.norm_eps = 3e-5;
  if (GetParam()) {
    c.draft_vocab = 12;
    c.markov_rank = 3;
  } else {
    c.hidden = c.width = 32;
    c.intermediate = 64;
    c.weight_bits = 4;
  }
  Medusa model = noisy_medusa(c, at::kFloat, 31);
  for (const ModelWeight& w : weights(model)) {
    *w.tensor = w.tensor->to(at::kBFloat16).to(at::kFloat);
  }
  if (GetParam()) {
    model.draft_to_target = at::tensor({0, 3, 4, 7, 9, 20, 21, 22, 30, 31, 44, 49}, at::kLong);
  }
  DecoderLm target;
  target.config.hidden = c.hidden;
  target.config.vocab = c.vocab;
  target.config.layers = c.target_layers;
  target.embedding = model.embedding;

  const testing::TempFolder folder;
  const auto path = folder.path() / "new" / "heads";
  save_medusa(path, model, {{"steps", 7}});
  Medusa read = load_medusa(path, target);
  EXPECT_EQ(load_hf_config(path).config["forerun"]["steps"], 7);
  EXPECT_EQ(read.config.feature_layers, c.feature_layers);
  EXPECT_EQ(read.config.weight_bits, c.weight_bits);
  EXPECT_EQ(medusa_config_json(read.config), medusa_config_json(c));
  ASSERT_EQ(read.draft_to_target.defined(), GetParam());
  if (GetParam()) {
    EXPECT_TRUE(at::equal(read.draft_to_target, model.draft_to_target));
  }
  EXPECT_TRUE(at::equal(read.embedding, model.embedding));
  const auto before = weights(model), after = weights(read);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_TRUE(at::equal(*before[i].tensor, *after[i].tensor)) << before[i].name;
  }
  for (std::size_t i = 0; i < read.feature_norms.size(); ++i) {
    EXPECT_EQ(read.feature_norms[i].eps, 3e-5);
  }
  const at::Tensor x = random_features(c, 4, at::kFloat, 32);
  const at::Tensor newest = at::tensor({1, 49, 0, 7}, at::kLong);
  EXPECT_EQ(distance(head_states(read, x, newest), head_states(model, x, newest)), 0.0);

  // Without a word on its training, over what is there.
  save_medusa(path, model);
  EXPECT_FALSE(load_hf_config(path).config.contains("forerun"));
  EXPECT_NO_THROW(load_medusa(path, target));
}

INSTANTIATE_TEST_SUITE_P(Medusa, MedusaSaved, ::testing::Bool(), [](const auto& reduced) {
  return std::string(reduced.param ? "Reduced" : "FourBits");
});

TEST(MedusaFile, AnIncompleteModelIsNotSaved) {
  const testing::TempFolder folder;
  Medusa lacking = noisy_medusa(small_medusa(), at::kFloat, 33);
  lacking.up.weight = at::Tensor();
  EXPECT_THROW(save_medusa(folder.path() / "x", lacking), std::invalid_argument);
  Medusa other = noisy_medusa(small_medusa(), at::kFloat, 33);
  other.head_norms[2].weight = at::ones({31});
  EXPECT_THROW(save_medusa(folder.path() / "x", other), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
}

TEST(MedusaFile, MutatedConfigsAreReadOrRefused) {
  const testing::Bytes seed =
      testing::bytes_of(testing::read_file(kMedusaData + "markov/config.json"));
  testing::SplitMix64 rng{5};
  int read = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const testing::Bytes mutant = testing::mutate(seed, rng);
    const nlohmann::json config = nlohmann::json::parse(testing::text_of(mutant), nullptr, false);
    if (config.is_discarded()) continue;
    const Result<MedusaConfig> c = parse_medusa_config(config, 9);
    if (!c) {
      ++refused;
      EXPECT_EQ(c.error().message.find('\n'), std::string::npos) << c.error().message;
      EXPECT_EQ(c.error().message.rfind("config.json: ", 0), 0U) << c.error().message;
      continue;
    }
    ++read;
    EXPECT_GE(c->hidden, 1);
    EXPECT_LE(c->hidden, 1 << 20);
    EXPECT_GE(c->width, 1);
    EXPECT_LE(c->width, 1 << 20);
    EXPECT_GE(c->intermediate, 1);
    EXPECT_LE(c->draft_vocab, c->vocab);
    EXPECT_GE(c->heads, 1);
    EXPECT_LE(c->heads, 64);
    EXPECT_EQ(c->target_layers, 9);
    EXPECT_GE(c->features(), 1);
    for (const std::int64_t layer : c->feature_layers) EXPECT_TRUE(layer >= 0 && layer <= 7);
  }
  EXPECT_GT(read, 0) << "every mutant is refused: they are not read";
  EXPECT_GT(refused, 0) << "no mutant is refused: they are not damaged";
}

// Of either file. What is read has numbers only.
TEST(MedusaFile, MutatedFilesAreReadOrRefused) {
  const MedusaCopy copy;
  copy.write();
  testing::SplitMix64 rng{6};
  int read = 0, refused = 0;
  for (const std::string name : {"model.safetensors", "config.json"}) {
    const std::string whole = testing::read_file(copy.folder.path() / name);
    const testing::Bytes seed = testing::bytes_of(whole);
    for (int i = 0; i < 600; ++i) {
      SCOPED_TRACE(name + " " + std::to_string(i));
      const testing::Bytes mutant = testing::mutate(seed, rng);
      copy.folder.write(name, testing::text_of(mutant));
      try {
        Medusa m = load_medusa(copy.folder.path(), medusa_target());
        ++read;
        for (const ModelWeight& w : weights(m)) {
          EXPECT_TRUE(w.tensor->isfinite().all().item<bool>()) << w.name;
        }
      } catch (const FormatError& e) {
        ++refused;
        const std::string said = e.what();
        EXPECT_EQ(said.rfind(copy.folder.path().string(), 0), 0U) << said;
        EXPECT_EQ(said.find('\n'), std::string::npos) << said;
      }
    }
    copy.folder.write(name, whole);
  }
  EXPECT_GT(read, 0) << "every mutant is refused: they are not read";
  EXPECT_GT(refused, 0) << "no mutant is refused: they are not damaged";
}

}  // namespace
}  // namespace forerun
