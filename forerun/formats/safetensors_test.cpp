#include "forerun/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "forerun/formats/dequantize.h"
#include "forerun/formats/half.h"
#include "forerun/formats/safetensors_write.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

constexpr const char* kPlain = FORERUN_SOURCE_DIR "/tests/data/formats/plain.safetensors";

std::string file_of(std::string_view header, std::string_view data = "") {
  const std::uint64_t size = header.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out.append(header).append(data);
}

std::string message_of(const std::string& file) {
  const Result<Safetensors> parsed = parse_safetensors(std::as_bytes(std::span(file)));
  return parsed ? "parsed" : parsed.error().message;
}

void expect_says(const std::string& file, std::string_view part) {
  const std::string message = message_of(file);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

template <class F>
std::string thrown_by(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "did not throw";
}

TEST(Safetensors, HeadersOfNestedArraysAreRefused) {
  expect_says(file_of(R"({"a":{"dtype":"F32","shape":[[]],"data_offsets":[0,0]}})"),
              "nested deeper than 3");
  std::string arrays = R"({"a":[)";  // 100 MB of these took 2.2 GB
  for (int i = 0; i < 2'000'000; ++i) arrays += "[],";
  expect_says(file_of(arrays + "[]]}"), "more than 2000000 values");
}

TEST(Safetensors, ReadsTheReferenceWritersFile) {
  const Safetensors file = load_safetensors(kPlain);
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.metadata().at("note"), "na\u00efve");
  const TensorView* f32 = file.find("f32");
  const TensorView* bf16 = file.find("bf16");
  ASSERT_TRUE(f32 != nullptr && bf16 != nullptr);
  EXPECT_EQ(f32->shape, (std::vector<std::int64_t>{5, 7}));
  EXPECT_EQ(file.find("scalar")->shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.find("none")->bytes.size(), 0u);
  EXPECT_EQ(file.find("nothing"), nullptr);
  // The reference rounded the same numbers to bfloat16.
  std::vector<std::uint16_t> rounded(35);
  dequantize_bf16(DType::kF32, f32->bytes, rounded);
  EXPECT_EQ(std::memcmp(rounded.data(), bf16->bytes.data(), 70), 0);
  EXPECT_EQ(rounded[0], 0x3f80);
  EXPECT_EQ(rounded[1], 0x3f82);
}

TEST(Safetensors, CopiesKeepTheFileMappedAndFindable) {
  const Safetensors copy = [] {
    const Safetensors first = load_safetensors(kPlain);
    return Safetensors(first);
  }();
  ASSERT_NE(copy.find("scalar"), nullptr);
  float value = 0;
  std::memcpy(&value, copy.find("scalar")->bytes.data(), sizeof value);
  EXPECT_EQ(value, 2.5f);
}

TEST(Safetensors, AnEmptyModelIsAModel) {
  EXPECT_EQ(message_of(file_of("{}")), "parsed");
  EXPECT_EQ(message_of(file_of("{}      ")), "parsed");  // padding
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string file = testing::read_file(kPlain);
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_NE(message_of(std::string(file.data(), n)), "parsed") << n;
  }
  expect_says(file.substr(0, file.size() - 6), ": 6 bytes are missing; download it again");
  expect_says(file.substr(0, 40), "the file ends inside its header: ");
  expect_says("abc", "3 bytes are too few");
}

TEST(Safetensors, ErrorsNameTheFormatOfAnotherFile) {
  expect_says("GGUF\x03" + std::string(30, '\0'), "not a safetensors file: it is a GGUF file");
  expect_says("version https://git-lfs.example/spec\n", "it is a Git LFS pointer");
  expect_says("PK\x03\x04" + std::string(30, 'x'), "it is a zip archive");
}

TEST(Safetensors, RefusesGiantHeaders) {
  std::string file = file_of("{}");
  const std::uint64_t size = 3'000'000'000;
  std::memcpy(file.data(), &size, sizeof size);
  expect_says(file, "the header has 3000000000 bytes, at most 100000000 are read");
}

TEST(Safetensors, RefusesMalformedHeaders) {
  expect_says(file_of("{\"a\":}"), "header: not valid JSON");
  expect_says(file_of("{" + std::string(99, '[') + "}"), "header: ");
  expect_says(file_of(R"({"a":{},"a":{}})"), "key 'a' occurs twice");
  expect_says(file_of(R"({"a":[]})"), "tensor 'a' is not described by an object");
  expect_says(file_of(R"({"a":{"shape":[],"data_offsets":[0,4]}})"), "tensor 'a' has no dtype");
  expect_says(file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})"), "tensor 'a' has no shape");
  expect_says(file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"),
              "has no shape of whole numbers");
  expect_says(file_of(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})"),
              "has no shape of whole numbers");
  expect_says(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})"),
              "tensor 'a' has no two data_offsets");
  expect_says(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})"),
              "tensor 'a' ends before it begins");
  expect_says(file_of(R"({"__metadata__":{"k":1}})"), "__metadata__ 'k' is not a string");
  expect_says(file_of(R"({"__metadata__":[]})"), "__metadata__ is not an object");
}

TEST(Safetensors, RefusesUnknownDtypesByName) {
  expect_says(
      file_of(R"({"w":{"dtype":"Q9","shape":[4],"data_offsets":[0,4]}})", "abcd"),
      "tensor 'w' is stored as 'Q9', which forerun does not know; F32, F16 and BF16 are read");
}

// A folder may hold what nobody asks for.
TEST(Safetensors, OfOtherDtypesThereAreNamesAndSizes) {
  const std::string file = file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                   R"("b":{"dtype":"F6_E2M3","shape":[2,4],"data_offsets":[3,9]},)"
                                   R"("c":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})",
                                   "abcdefghi" + std::string(4, '\0'));
  const Result<Safetensors> parsed = parse_safetensors(std::as_bytes(std::span(file)));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(name_of(parsed->find("a")->dtype), "U8");
  EXPECT_FALSE(is_read(parsed->find("b")->dtype));
  EXPECT_TRUE(is_read(parsed->find("c")->dtype));
  expect_says(file_of(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", "ab"),
              "tensor 'w' of F4 with shape [3] has 2 bytes");
}

TEST(Safetensors, RefusesShapesThatDoNotFitTheBytes) {
  expect_says(file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"),
              "tensor 'w' of F32 with shape [2] has 4 bytes, 8 expected");
  expect_says(
      file_of(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
              "abcd"),
      "more than any file's expected");
}

TEST(Safetensors, RefusesGapsOverlapsAndLeftovers) {
  const auto two = [](const char* second) {
    return std::string(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)") +
           R"("b":{"dtype":"F16","shape":[2],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(message_of(file_of(two("[4,8]"), "12345678")), "parsed");
  expect_says(file_of(two("[2,6]"), "123456"),
              "tensor 'b' starts at byte 2 of the data, expected 4 "
              "(it overlaps another)");
  expect_says(file_of(two("[6,10]"), "1234567890"), "expected 4 (there is a gap)");
  expect_says(file_of(two("[4,8]"), "123456789"), "1 bytes after the last tensor belong to none");
  expect_says(file_of(two("[9223372036854775803,9223372036854775807]"), "12345678"),
              "there is a gap");
}

struct Owned {
  std::vector<float> f32{1.5f, -2.0f, 0.0f};
  std::vector<std::uint16_t> bf16{0x3f80, 0x4000};
  std::vector<TensorView> views() const {
    return {{"half", DType::kBF16, {2, 1}, std::as_bytes(std::span(bf16))},
            {"full", DType::kF32, {3}, std::as_bytes(std::span(f32))},
            {"empty", DType::kF16, {0, 5}, {}}};
  }
};

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "out.safetensors";
  const Owned owned;
  write_safetensors(path, owned.views(), {{"format", "pt"}});
  const Safetensors read = load_safetensors(path);
  EXPECT_EQ(read.metadata(), (Safetensors::Metadata{{"format", "pt"}}));
  ASSERT_EQ(read.tensors().size(), 3u);
  for (const TensorView& written : owned.views()) {
    const TensorView* found = read.find(written.name);
    ASSERT_NE(found, nullptr) << written.name;
    EXPECT_EQ(found->dtype, written.dtype);
    EXPECT_EQ(found->shape, written.shape);
    EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), written.bytes.begin(),
                           written.bytes.end()));
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.find("full")->bytes.data()) % 4, 0u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, WritingRefusesWhatCannotBeReadBack) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "out.safetensors";
  const Owned owned;
  const auto message = [&](TensorView tensor) {
    const std::vector<TensorView> all{owned.views()[0], std::move(tensor)};
    return thrown_by([&] { write_safetensors(path, all); });
  };
  const auto f32 = std::as_bytes(std::span(owned.f32));
  EXPECT_NE(message({"half", DType::kF32, {3}, f32}).find("the name 'half' is taken"),
            std::string::npos);
  EXPECT_NE(message({"__metadata__", DType::kF32, {3}, f32}).find("is taken"), std::string::npos);
  EXPECT_NE(message({"w", DType::kF32, {4}, f32}).find("with shape [4] has 12 bytes"),
            std::string::npos);
  EXPECT_NE(message({"w", DType::kQ8_0, {32}, f32}).find("is Q8_0, expected plain numbers"),
            std::string::npos);
  EXPECT_NE(message({"\xff", DType::kF32, {3}, f32}).find("is not UTF-8"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A model of two shards; `index` may be told lies.
struct Sharded {
  testing::TempFolder folder;

  explicit Sharded(const std::string& index) {
    const Owned owned;
    const auto views = owned.views();
    write_safetensors(folder.path() / "model-1.safetensors", std::span(views).first(1));
    write_safetensors(folder.path() / "model-2.safetensors", std::span(views).subspan(1));
    folder.write("model.safetensors.index.json", index);
  }
  std::string error() const {
    return thrown_by([&] { (void)load_safetensors(folder.path()); });
  }
};

TEST(SafetensorsShards, EachTensorComesFromItsShard) {
  const Sharded model(R"({"metadata":{"total_size":16},"weight_map":
      {"half":"model-1.safetensors","full":"model-2.safetensors"}})");
  const Safetensors all = load_safetensors(model.folder.path());
  EXPECT_EQ(all.tensors().size(), 2u);
  EXPECT_EQ(all.find("half")->dtype, DType::kBF16);
  EXPECT_EQ(all.find("full")->dtype, DType::kF32);
  EXPECT_EQ(all.find("empty"), nullptr);  // in a shard, but not in the weight map
  EXPECT_EQ(load_safetensors(model.folder.path() / "model.safetensors.index.json").tensors().size(),
            2u);
}

TEST(SafetensorsShards, AMissingShardIsNamed) {
  const Sharded model(R"({"weight_map":{"half":"model-1.safetensors","x":"model-3.safetensors"}})");
  EXPECT_EQ(model.error(), (model.folder.path() / "model-3.safetensors").string() +
                               ": this shard is missing, model.safetensors.index.json holds 1 "
                               "tensors in it; download it");
}

TEST(SafetensorsShards, ATensorMissingFromItsShardIsNamed) {
  const Sharded model(R"({"weight_map":{"full":"model-1.safetensors"}})");
  EXPECT_NE(model.error().find("model-1.safetensors: has no tensor 'full'"), std::string::npos)
      << model.error();
}

TEST(SafetensorsShards, TheIndexCannotLeaveItsFolder) {
  for (const char* name :
       {"../model-1.safetensors", "/etc/passwd", "..", ".", "", "a/b", "a\\\\b", "a\\u0000b"}) {
    const Sharded model(std::string(R"({"weight_map":{"half":")") + name + "\"}}");
    EXPECT_NE(model.error().find("which is not a plain file name"), std::string::npos)
        << name << ": " << model.error();
  }
}

TEST(SafetensorsShards, AMalformedIndexIsAnError) {
  EXPECT_NE(Sharded("{").error().find("index.json: not valid JSON"), std::string::npos);
  for (const char* index : {"[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    EXPECT_NE(Sharded(index).error().find("has no weight_map"), std::string::npos) << index;
  }
  EXPECT_NE(Sharded(R"({"weight_map":{"a":1}})").error().find("weight_map 'a' is not a file name"),
            std::string::npos);
}

TEST(SafetensorsShards, AFolderWithoutWeightsIsAnError) {
  const testing::TempFolder folder;
  const auto message = [&] { return thrown_by([&] { (void)load_safetensors(folder.path()); }); };
  EXPECT_NE(message().find("give the folder of a Hugging Face model"), std::string::npos)
      << message();
  folder.write("config.json", "{}");  // of a drafter, say, whose weights were left behind
  EXPECT_NE(message().find("its weights are missing: copy them there"), std::string::npos)
      << message();
  EXPECT_NE(message().find("has neither"), std::string::npos);
}

}  // namespace
}  // namespace forerun
