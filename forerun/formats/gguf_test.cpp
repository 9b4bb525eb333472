#include "forerun/formats/gguf.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::GgufBuilder;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string message_of(const std::string& file) {
  const Result<Gguf> parsed = parse_gguf(bytes(file));
  return parsed ? "parsed" : parsed.error().message;
}

TEST(Gguf, ReadsASmallFileBuiltByHand) {
  const std::string file = testing::small_gguf();
  const Result<Gguf> parsed = parse_gguf(bytes(file));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->version(), 3u);
  ASSERT_EQ(parsed->metadata().size(), 4u);
  EXPECT_EQ(parsed->metadata()[1].key, "llama.block_count");
  ASSERT_EQ(parsed->tensors().size(), 3u);
  const TensorView* plain = parsed->find("plain");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->shape, (std::vector<std::int64_t>{2, 3}));  // outermost first
  EXPECT_EQ(plain->dtype, DType::kF32);
  EXPECT_EQ(plain->bytes.size(), 24u);
  const TensorView* q6 = parsed->find("q6");
  EXPECT_EQ(q6->bytes.size(), 210u);
  EXPECT_EQ(q6->bytes.data() + 210, bytes(file).data() + file.size());
  EXPECT_EQ(parsed->find("none"), nullptr);
}

TEST(Gguf, ReadsVersion2) {
  GgufBuilder b;
  b.version = 2;
  EXPECT_EQ(parse_gguf(bytes(b.string("k", "v").bytes()))->version(), 2u);
}

TEST(Gguf, ReadsTheReferenceWritersMetadata) {
  const Gguf file = load_gguf(FORERUN_SOURCE_DIR "/tests/data/formats/blocks.gguf");
  EXPECT_EQ(file.require<std::int64_t>("test.u8"), 200);
  EXPECT_EQ(file.require<std::int64_t>("test.i8"), -100);
  EXPECT_EQ(file.require<std::int32_t>("test.u16"), 60000);
  EXPECT_EQ(file.require<std::int32_t>("test.i16"), -30000);
  EXPECT_EQ(file.require<std::uint32_t>("test.u32"), 4000000000u);
  EXPECT_EQ(file.require<std::int32_t>("test.i32"), -2000000000);
  EXPECT_EQ(file.require<float>("test.f32"), 0.1f);
  EXPECT_EQ(file.require<double>("test.f64"), 0.1);
  EXPECT_EQ(file.require<double>("test.f32"), double{0.1f});
  EXPECT_EQ(file.require<bool>("test.bool"), true);
  EXPECT_EQ(file.require<std::string_view>("test.string"), "na\u00efve");
  EXPECT_EQ(file.require<std::int64_t>("test.i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(std::get<std::uint64_t>(*file.find_value("test.u64")), ~std::uint64_t{0});
  const auto strings = file.require<std::span<const std::string_view>>("test.strings");
  EXPECT_EQ(std::vector(strings.begin(), strings.end()),
            (std::vector<std::string_view>{"", "a", "\u0120the"}));
  EXPECT_EQ(file.require<std::vector<std::int32_t>>("test.integers"),
            (std::vector<std::int32_t>{1, -2, 3}));
  EXPECT_EQ(file.require<std::vector<float>>("test.floats"), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_EQ(file.require<std::vector<bool>>("test.bools"), (std::vector<bool>{true, false}));
  const auto& nested = std::get<GgufArray>(*file.find_value("test.nested"));
  ASSERT_EQ(nested.arrays.size(), 2u);
  EXPECT_EQ(nested.arrays[0].size, 2u);
}

TEST(Gguf, CopiesAndMovesKeepTheFileMapped) {
  const testing::TempFolder folder;
  Gguf moved = [&] {
    const Gguf first = load_gguf(folder.write("m.gguf", testing::small_gguf()));
    Gguf copy = first;
    return copy;
  }();
  EXPECT_EQ(moved.require<std::string_view>("general.architecture"), "llama");
  EXPECT_EQ(moved.find("q8")->bytes[0], std::byte(32 * 37 % 256));
}

TEST(Gguf, GettersNameTheFoundAndTheExpectedType) {
  const std::string text = testing::small_gguf();
  const Gguf file = *parse_gguf(bytes(text));
  EXPECT_EQ(file.get<std::int64_t>("llama.block_count"), 1);
  EXPECT_EQ(file.get<std::int64_t>("none"), std::nullopt);
  EXPECT_EQ(file.get<std::int64_t>("general.architecture"), std::nullopt);
  EXPECT_EQ(*file.read_or<std::int64_t>("none", 7), 7);
  EXPECT_EQ(file.read<bool>("none").error().message,
            "metadata 'none' is missing; convert the model again");
  EXPECT_EQ(file.read_or<std::int64_t>("general.architecture", 7).error().message,
            "metadata 'general.architecture' is of type string, expected an integer that fits i64");
  EXPECT_EQ(file.read<float>("llama.block_count").error().message,
            "metadata 'llama.block_count' is of type u32, expected f32");
  EXPECT_EQ(file.read<std::vector<float>>("tokens").error().message,
            "metadata 'tokens' is an array of string, expected numbers or bools");
  EXPECT_EQ(file.read<std::span<const std::string_view>>("scores").error().message,
            "metadata 'scores' is of type array of f32, expected an array of strings");
  EXPECT_EQ(file.read<std::vector<std::int32_t>>("scores").error().message,
            "metadata 'scores' is an array of f32 whose element 0 is not an integer that fits i32");
}

TEST(Gguf, IntegersOutOfRangeAreNotCut) {
  GgufBuilder b;
  b.u32("big", 0xffffffff).entry("minus", 5, GgufBuilder::raw(-1));
  b.entry("array", 9,
          GgufBuilder::raw<std::uint32_t>(4) + GgufBuilder::raw<std::uint64_t>(1) +
              GgufBuilder::raw<std::uint32_t>(0xffffffff));
  const std::string text = b.bytes();
  const Gguf file = *parse_gguf(bytes(text));
  EXPECT_FALSE(file.read<std::int32_t>("big"));
  EXPECT_EQ(*file.read<std::int64_t>("big"), 0xffffffff);
  EXPECT_FALSE(file.read<std::uint32_t>("minus"));
  EXPECT_FALSE(file.read<std::vector<std::int32_t>>("array"));
}

TEST(Gguf, RequireThrowsWithThePath) {
  const testing::TempFolder folder;
  const auto path = folder.write("m.gguf", testing::small_gguf());
  try {
    (void)load_gguf(path).require<bool>("llama.rope");
    FAIL() << "did not throw";
  } catch (const FormatError& e) {
    EXPECT_EQ(std::string(e.what()),
              path.string() + ": metadata 'llama.rope' is missing; convert the model again");
  }
}

TEST(Gguf, LoadingNamesThePath) {
  const testing::TempFolder folder;
  const auto path = folder.write("m.gguf", "<!DOCTYPE html><html>login</html>");
  try {
    (void)load_gguf(path);
    FAIL() << "did not throw";
  } catch (const FormatError& e) {
    EXPECT_EQ(std::string(e.what()),
              path.string() +
                  ": not a GGUF file: it is a web page; the download went wrong, perhaps "
                  "for want of a login");
  }
}

struct Foreign {
  const char* name;
  std::string_view start;
  const char* says;
};

TEST(Gguf, ErrorsNameTheFormatOfAnotherFile) {
  using namespace std::literals;
  const Foreign cases[] = {
      {"big-endian", "FUGG"sv, "it is a big-endian GGUF file"},
      {"ggml", "tjgg\x03\0\0\0"sv, "it is a GGML file from before GGUF"},
      {"safetensors", "\x10\0\0\0\0\0\0\0{\"a\":"sv, "it is a safetensors file"},
      {"zip", "PK\x03\x04\0\0"sv, "it is a zip archive, as PyTorch checkpoints are"},
      {"pickle", "\x80\x02}q"sv, "it is a Python pickle"},
      {"gzip", "\x1f\x8b\x08"sv, "it is a gzip archive"},
      {"html", "\n  <HTML>"sv, "it is a web page"},
      {"lfs", "version https://git-lfs.example\n"sv, "it is a Git LFS pointer"},
      {"json", " {\"model_type\""sv, "it is JSON text"},
      {"noise", "\x01\x02zz\xff"sv, "it starts with '\\x01\\x02zz\\xff', which is no known format"},
      {"short", "GG"sv, "it starts with 'GG'"},
      {"empty", ""sv, "it starts with ''"},
  };
  for (const Foreign& c : cases) {
    const std::string message = message_of(std::string(c.start));
    EXPECT_EQ(message.find(std::string("not a GGUF file: ") + c.says), 0u)
        << c.name << ": " << message;
  }
}

TEST(Gguf, RefusesOtherVersionsAndByteOrders) {
  GgufBuilder b;
  b.version = 1;
  EXPECT_EQ(message_of(b.bytes()),
            "GGUF version 1, versions 2 and 3 are read; convert the model again");
  b.version = 4;
  EXPECT_EQ(message_of(b.bytes()), "GGUF version 4, versions 2 and 3 are read; update forerun");
  b.version = 0x03000000;
  EXPECT_EQ(message_of(b.bytes()),
            "a big-endian GGUF file; convert the model again for little-endian machines");
}

TEST(Gguf, EveryTruncationIsAnErrorThatCountsBytes) {
  const std::string file = testing::small_gguf();
  for (std::size_t n = 4; n < file.size(); ++n) {
    // A separate allocation, so that a sanitizer sees any read past its end.
    const std::string message = message_of(std::string(file.data(), n));
    EXPECT_NE(message, "parsed") << n;
    EXPECT_TRUE(message.find("bytes are missing") != message.npos ||
                message.find("cannot fit the") != message.npos)
        << n << ": " << message;
  }
  EXPECT_EQ(message_of(file.substr(0, file.size() - 10)).find("the file has "), 0u);
  EXPECT_NE(message_of(file.substr(0, file.size() - 10)).find(": 10 bytes are missing"),
            std::string::npos);
}

TEST(Gguf, RefusesCountsBeyondTheFile) {
  GgufBuilder b;
  b.extra_entries = std::uint64_t{1} << 60;
  EXPECT_NE(
      message_of(b.bytes()).find("1152921504606846976 metadata entries cannot fit the 0 bytes"),
      std::string::npos);
  GgufBuilder c;
  c.extra_tensors = ~std::uint64_t{0};
  EXPECT_NE(message_of(c.bytes()).find("tensors cannot fit"), std::string::npos);
}

TEST(Gguf, RefusesLengthsBeyondTheFile) {
  GgufBuilder b;
  b.entry("key", 8, GgufBuilder::raw(~std::uint64_t{0} - 3) + "abc");
  EXPECT_NE(message_of(b.bytes()).find("inside metadata 'key'"), std::string::npos);
  for (const std::uint32_t type : {0u, 4u, 7u, 8u, 9u, 12u}) {
    GgufBuilder c;
    c.entry("list", 9,
            GgufBuilder::raw(type) + GgufBuilder::raw(~std::uint64_t{0} / 4 + 2) + "abc");
    EXPECT_NE(message_of(c.bytes()).find("elements of metadata 'list' cannot fit"),
              std::string::npos);
  }
}

TEST(Gguf, RefusesUnknownMetadataTypes) {
  EXPECT_EQ(
      message_of(GgufBuilder().entry("key", 13, "x").bytes()),
      "metadata 'key' has the unknown type number 13; the file is damaged or newer than forerun "
      "knows");
}

TEST(Gguf, RefusesDeeplyNestedArrays) {
  const auto nest = [](int depth) {
    std::string payload;
    for (int i = 0; i + 1 < depth; ++i) {
      payload += GgufBuilder::raw<std::uint32_t>(9) + GgufBuilder::raw<std::uint64_t>(1);
    }
    payload += GgufBuilder::raw<std::uint32_t>(0) + GgufBuilder::raw<std::uint64_t>(1) + "x";
    return GgufBuilder().entry("deep", 9, payload).bytes();
  };
  EXPECT_EQ(message_of(nest(4)), "parsed");
  EXPECT_EQ(message_of(nest(5)), "metadata 'deep' nests arrays deeper than 4; the file is damaged");
  EXPECT_NE(message_of(nest(100000)), "parsed");
}

TEST(Gguf, RefusesNamesGivenTwice) {
  EXPECT_EQ(message_of(GgufBuilder().u32("k", 1).u32("k", 2).bytes()),
            "metadata 'k' occurs twice; the file is damaged, convert it again");
  GgufBuilder b;
  b.tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).data.resize(64);
  EXPECT_EQ(message_of(b.bytes()),
            "tensor 't' occurs twice; the file is damaged, convert it again");
}

TEST(Gguf, RefusesBadAlignment) {
  for (const std::uint32_t alignment : {0u, 3u, 48u}) {
    EXPECT_NE(message_of(GgufBuilder().u32("general.alignment", alignment).bytes())
                  .find("expected a power of two"),
              std::string::npos);
  }
  EXPECT_NE(
      message_of(GgufBuilder().string("general.alignment", "x").bytes()).find("is of type string"),
      std::string::npos);
  GgufBuilder b;
  b.alignment = 64;
  b.u32("general.alignment", 64).tensor("t", {2}, 0, 64).data.resize(72);
  EXPECT_EQ(message_of(b.bytes()), "parsed");
}

std::string one_tensor(std::vector<std::int64_t> dims, std::uint32_t type, std::uint64_t offset,
                       std::size_t data = 4096) {
  GgufBuilder b;
  b.tensor("w", std::move(dims), type, offset).data.resize(data);
  return message_of(b.bytes());
}

TEST(Gguf, RefusesTensorsStoredAsSomethingElse) {
  EXPECT_EQ(
      one_tensor({256}, 22, 0),
      "tensor 'w' is stored as IQ2_S (type 22), which forerun does not read; F32, F16, BF16, Q8_0, "
      "Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4 are: "
      "quantise "
      "the model to one of these");
  EXPECT_EQ(one_tensor({256}, 4, 0).find("tensor 'w' is stored as an unknown type (type 4)"), 0u);
  EXPECT_EQ(one_tensor({256}, 9999, 0).find("tensor 'w' is stored as an unknown type (type 9999)"),
            0u);
}

TEST(Gguf, RefusesImpossibleShapes) {
  EXPECT_EQ(one_tensor({4, 4, 4, 4}, 0, 0), "parsed");
  EXPECT_NE(one_tensor({1, 1, 1, 1, 1}, 0, 0).find("has 5 dimensions, at most 4"),
            std::string::npos);
  EXPECT_NE(one_tensor({4, 0}, 0, 0).find("has shape [4, 0]"), std::string::npos);
  EXPECT_NE(one_tensor({4, -1}, 0, 0).find("every dimension must be positive"), std::string::npos);
  EXPECT_NE(one_tensor({33, 32}, 8, 0).find("rows of 33 elements, Q8_0 needs a multiple of 32"),
            std::string::npos);
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_NE(one_tensor({half, half}, 0, 0).find("larger than any file"), std::string::npos);
  EXPECT_NE(one_tensor({half, half / 4}, 0, 0).find("larger than any file"), std::string::npos);
}

TEST(Gguf, RefusesOffsetsThatDoNotFit) {
  EXPECT_EQ(one_tensor({1024}, 0, 0), "parsed");
  EXPECT_NE(one_tensor({1024}, 0, 32).find(": 32 bytes are missing"), std::string::npos);
  EXPECT_NE(one_tensor({8}, 0, 8).find("lies at offset 8, expected a multiple of 32"),
            std::string::npos);
  EXPECT_NE(one_tensor({8}, 0, ~std::uint64_t{31}).find("larger than any file"), std::string::npos);
  GgufBuilder b;
  b.tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).data.resize(96);
  EXPECT_EQ(message_of(b.bytes()), "tensor 'b' overlaps the one before it; the file is damaged");
}

TEST(Gguf, EscapesControlCharactersInNames) {
  const std::string name = "\x1b[31m\n" + std::string(200, 'x');
  const std::string message = message_of(GgufBuilder().entry(name, 99, "").bytes());
  EXPECT_EQ(message.find("metadata '\\x1b[31m\\x0axxx"), 0u) << message;
  EXPECT_LT(message.size(), 220u);
}

TEST(Gguf, ReadsManyStringsWithoutCopyingThem) {
  std::vector<std::string_view> tokens(200'000, "token");
  GgufBuilder b;
  const std::string text = b.strings("tokens", tokens).bytes();
  const Gguf file = *parse_gguf(bytes(text));
  const auto read = file.require<std::span<const std::string_view>>("tokens");
  ASSERT_EQ(read.size(), tokens.size());
  EXPECT_TRUE(read[7].data() > text.data() && read[7].data() < text.data() + text.size());
}

}  // namespace
}  // namespace forerun
