#include "forerun/api/model_file.h"

#include <gtest/gtest.h>

#include <string>

#include "forerun/base/hash.h"
#include "forerun/base/mapped_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::GgufBuilder;

std::string part(std::uint16_t number, float weight) {
  GgufBuilder b;
  b.entry("split.no", 2, GgufBuilder::raw(number))
      .entry("split.count", 2, GgufBuilder::raw(std::uint16_t{2}));
  b.tensor(number == 0 ? "a" : "b", {1}, 0, 0).data = GgufBuilder::raw(weight);
  return b.bytes();
}

TEST(HashOfWeights, IsThatOfAllPartsOfASplitFile) {
  const testing::TempFolder folder;
  const std::string first = folder.write("m-00001-of-00002.gguf", part(0, 1.0F)).string();
  folder.write("m-00002-of-00002.gguf", part(1, 2.0F));
  const std::string one = hash_of_weights(first);
  EXPECT_EQ(hash_of_weights(first), one);
  folder.write("m-00002-of-00002.gguf", part(1, 3.0F));
  EXPECT_NE(hash_of_weights(first), one);
}

TEST(HashOfWeights, IsThatOfTheBytesOfOneFile) {
  const testing::TempFolder folder;
  for (const char* name : {"m.gguf", "m-00001-of-00002.gguf"}) {  // by name alone a part
    const std::string file = folder.write(name, testing::small_gguf()).string();
    EXPECT_EQ(hash_of_weights(file), "xxh3:" + Hash().add(load_file(file).bytes()).text());
  }
}

}  // namespace
}  // namespace forerun
