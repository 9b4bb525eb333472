#include "forerun/formats/weight_source.h"

#include <gtest/gtest.h>

#include "forerun/formats/safetensors_write.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

constexpr const char* kData = FORERUN_SOURCE_DIR "/tests/data/formats/";

std::string error_of(const std::filesystem::path& path) {
  try {
    (void)load_weights(path);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "did not throw";
}

TEST(WeightSource, ServesBothFormats) {
  const WeightSource gguf = load_weights(std::string(kData) + "blocks.gguf");
  EXPECT_NE(gguf.gguf(), nullptr);
  EXPECT_EQ(gguf.require("Q4_1").dtype, DType::kQ4_1);
  const WeightSource plain = load_weights(std::string(kData) + "plain.safetensors");
  EXPECT_EQ(plain.gguf(), nullptr);
  EXPECT_EQ(plain.tensors().size(), 5u);
  EXPECT_EQ(plain.find("bf16")->dtype, DType::kBF16);
  EXPECT_EQ(plain.find("Q4_1"), nullptr);
}

TEST(WeightSource, IdsAreNoWeights) {
  const testing::TempFolder folder;
  const std::vector<std::int64_t> ids{1, 2};
  const auto path = folder.path() / "ids.safetensors";
  const TensorView view{"w", DType::kI64, {2}, std::as_bytes(std::span(ids))};
  write_safetensors(path, {&view, 1});
  const WeightSource file = load_weights(path);
  EXPECT_NE(file.find("w"), nullptr);
  try {
    (void)file.require("w");
    FAIL() << "did not throw";
  } catch (const FormatError& e) {
    EXPECT_NE(std::string(e.what()).find("tensor 'w' holds I64 where weights are expected"),
              std::string::npos)
        << e.what();
  }
}

TEST(WeightSource, IdentifiesAGgufFileByItsFirstBytes) {
  const testing::TempFolder folder;
  EXPECT_NE(load_weights(folder.write("blob", testing::small_gguf())).gguf(), nullptr);
}

TEST(WeightSource, ReadsAFolder) {
  const testing::TempFolder folder;
  folder.write("model.safetensors", testing::read_file(std::string(kData) + "plain.safetensors"));
  EXPECT_EQ(load_weights(folder.path()).tensors().size(), 5u);
}

TEST(WeightSource, AMissingTensorIsNamedWithTheFile) {
  const std::string path = std::string(kData) + "plain.safetensors";
  try {
    (void)load_weights(path).require("lm_head.weight");
    FAIL() << "did not throw";
  } catch (const FormatError& e) {
    EXPECT_EQ(std::string(e.what()),
              path +
                  ": has no tensor 'lm_head.weight' among its 5; the model is incomplete or of "
                  "another architecture");
  }
}

TEST(WeightSource, ErrorsNameTheFault) {
  const testing::TempFolder folder;
  EXPECT_NE(error_of(folder.write("m.gguf", "<html>")).find("not a GGUF file: it is a web page"),
            std::string::npos);
  EXPECT_NE(error_of(folder.write("m.bin", "PK\x03\x04 zip of pickles")).find("is a zip archive"),
            std::string::npos);
  EXPECT_NE(error_of(folder.path() / "none.gguf").find("no such file"), std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("has neither"), std::string::npos);
}

}  // namespace
}  // namespace forerun
