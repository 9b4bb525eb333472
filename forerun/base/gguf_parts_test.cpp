#include "forerun/base/gguf_parts.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(GgufPartName, IsThatOfLlamaGgufSplit) {
  const auto name = gguf_part_name("a/model-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a/model");
  EXPECT_EQ(name->part, 2);
  EXPECT_EQ(name->count, 13);
  EXPECT_EQ(name->file(13), "a/model-00013-of-00013.gguf");
}

TEST(GgufPartName, IsNoneOfOtherNames) {
  for (const char* other :
       {"", ".gguf", "model.gguf", "00001-of-00002.gguf", "model-00000-of-00002.gguf",
        "model-00003-of-00002.gguf", "model-0001-of-0002.gguf", "model-00001-of-00002.gguf.part",
        "model-00001-of-00002.safetensors", "model-0000x-of-00002.gguf",
        "model_00001-of-00002.gguf", "model-00001_of_00002.gguf", "-of-00002.gguf",
        "model-00001-of-00002/model.gguf"}) {
    EXPECT_FALSE(gguf_part_name(other)) << other;
  }
}

TEST(GgufFiles, AreAllPartsOrTheFileItself) {
  using Files = std::vector<std::filesystem::path>;
  EXPECT_EQ(gguf_files("m-00002-of-00002.gguf"),
            (Files{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}));
  EXPECT_EQ(gguf_files("m.gguf"), Files{"m.gguf"});
  EXPECT_EQ(gguf_files("folder"), Files{"folder"});
}

TEST(WithoutGgufEnding, IsOneNameForAllParts) {
  EXPECT_EQ(without_gguf_ending("d/m-00002-of-00002.gguf"), "d/m");
  EXPECT_EQ(without_gguf_ending("d/m.q4.gguf"), "d/m.q4");
  EXPECT_EQ(without_gguf_ending("d/m.v1"), "d/m.v1");
}

}  // namespace
}  // namespace forerun
