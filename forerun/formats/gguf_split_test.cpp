#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "forerun/formats/gguf.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::GgufBuilder;

std::string parse_error(const std::string& file) {
  const Result<Gguf> parsed = parse_gguf(std::as_bytes(std::span(file)));
  return parsed ? "parsed" : parsed.error().message;
}

std::string u16(std::uint16_t value) { return GgufBuilder::raw(value); }

std::string part_of_split(std::uint16_t part, std::uint16_t parts,
                          const std::vector<std::string>& tensors, std::int32_t all = 3) {
  GgufBuilder b;
  if (part == 0) b.string("general.architecture", "llama");
  b.entry("split.no", 2, u16(part)).entry("split.count", 2, u16(parts));
  b.entry("split.tensors.count", 5, GgufBuilder::raw(all));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    b.tensor(tensors[i], {8}, 0, 32 * i);
    for (int k = 0; k < 8; ++k) b.data += GgufBuilder::raw(static_cast<float>(10 * part + k));
  }
  return b.bytes();
}

class SplitGguf : public ::testing::Test {
 protected:
  void put(int part, const std::string& file) {
    folder_.write("m-0000" + std::to_string(part) + "-of-00003.gguf", file);
  }
  void put_all() {
    put(1, part_of_split(0, 3, {"a"}));
    put(2, part_of_split(1, 3, {}));
    put(3, part_of_split(2, 3, {"b", "c"}));
  }
  std::string name(int part) const {
    return (folder_.path() / ("m-0000" + std::to_string(part) + "-of-00003.gguf")).string();
  }
  static std::string message(const std::string& path) {
    try {
      load_gguf(path);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "loaded";
  }

  testing::TempFolder folder_;
};

TEST_F(SplitGguf, IsTheModelOfAllItsParts) {
  put_all();
  const Gguf file = load_gguf(name(1));
  EXPECT_EQ(file.require<std::string_view>("general.architecture"), "llama");
  ASSERT_EQ(file.tensors().size(), 3U);
  for (const auto& [tensor, first] : {std::pair("a", 0.0F), std::pair("b", 20.0F)}) {
    const TensorView* found = file.find(tensor);
    ASSERT_NE(found, nullptr) << tensor;
    float number = -1;
    std::memcpy(&number, found->bytes.data(), sizeof number);
    EXPECT_EQ(number, first) << tensor;
  }
  EXPECT_NE(file.find("c"), nullptr);
}

TEST_F(SplitGguf, OutlivesItsFiles) {
  put_all();
  auto file = std::make_unique<Gguf>(load_gguf(name(1)));
  const TensorView last = *file->find("c");
  const std::shared_ptr<const void> mapping = file->mapping();
  file.reset();
  for (int i = 1; i <= 3; ++i) std::filesystem::remove(name(i));
  float number = -1;
  std::memcpy(&number, last.bytes.data(), sizeof number);
  EXPECT_EQ(number, 20.0F);
}

TEST_F(SplitGguf, IsRefusedWithPartsMissingOrMixedUp) {
  put_all();
  EXPECT_EQ(message(name(2)),
            name(2) + ": is part 2 of 3 of a split model; name the first one, " + name(1));
  std::filesystem::remove(name(3));
  EXPECT_EQ(message(name(1)).find(name(3) + ": "), 0U) << message(name(1));
  put(3, part_of_split(1, 3, {"b", "c"}));
  EXPECT_EQ(message(name(1)), name(3) +
                                  ": is part 2 of 3 by what it holds; download it again, or "
                                  "give it its name again");
  put(3, part_of_split(2, 4, {"b", "c"}));
  EXPECT_NE(message(name(1)).find("is part 3 of 4 by what it holds"), std::string::npos);
  put(3, part_of_split(2, 3, {"b", "a"}));
  EXPECT_EQ(message(name(1)),
            name(3) + ": tensor 'a' is in another part too; download the parts again");
  put(3, part_of_split(2, 3, {"b"}));
  EXPECT_EQ(message(name(1)), name(1) +
                                  ": its 3 parts hold 2 tensors where the model has 3; "
                                  "download them again");
  put(3, "GGUF");
  EXPECT_EQ(message(name(1)).find(name(3) + ": "), 0U) << message(name(1));
}

TEST_F(SplitGguf, NeedsTheNamesOfParts) {
  put_all();
  const std::string renamed = folder_.write("model.gguf", part_of_split(1, 3, {"a"})).string();
  EXPECT_EQ(message(renamed), renamed +
                                  ": is part 2 of 3 of a split model, which its name does not "
                                  "say; give the parts their names again, as in "
                                  "model-00002-of-00003.gguf");
}

TEST(Gguf, RefusesNumbersOfPartsThatCannotBe) {
  EXPECT_EQ(parse_error(part_of_split(3, 3, {})),
            "is part 4 of 3 of a split model; the file is damaged");
  EXPECT_EQ(parse_error(GgufBuilder()
                            .entry("split.count", 5, GgufBuilder::raw(3))
                            .entry("split.no", 5, GgufBuilder::raw(-1))
                            .bytes()),
            "is part 0 of 3 of a split model; the file is damaged");
}

}  // namespace
}  // namespace forerun
