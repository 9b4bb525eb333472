#include <gtest/gtest.h>

#include <numeric>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"
#include "forerun/base/utf8.h"
#include "forerun/formats/dequantize.h"
#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/idx.h"
#include "forerun/formats/jinja/jinja.h"
#include "forerun/formats/png.h"
#include "forerun/formats/safetensors.h"
#include "forerun/formats/whole_numbers.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/idx_builder.h"
#include "tests/support/mutate.h"
#include "tests/support/png_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::for_each_mutant;
using testing::text_of;

constexpr const char* kData = FORERUN_SOURCE_DIR "/tests/data/formats/";

// What the walks find goes here, so that no read is optimised away.
struct Walk {
  std::uint64_t parsed = 0, refused = 0, sum = 0;

  void touch(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) sum += static_cast<std::uint64_t>(b);
  }
  void touch(std::string_view text) { touch(std::as_bytes(std::span(text))); }

  void touch(const TensorView& tensor) {
    touch(tensor.bytes);
    const auto elements = element_count(tensor.shape);
    ASSERT_TRUE(elements.has_value());
    const auto bytes = byte_size(tensor.dtype, *elements);
    ASSERT_TRUE(bytes.has_value());
    ASSERT_EQ(static_cast<std::size_t>(*bytes), tensor.bytes.size());
    if (!holds_weights(tensor.dtype)) {
      if (const auto whole = whole_numbers(tensor)) sum += whole->size();
      return;
    }
    std::vector<float> numbers(static_cast<std::size_t>(*elements));
    dequantize(tensor.dtype, tensor.bytes, numbers);
    std::vector<std::uint16_t> halves(numbers.size());
    dequantize_bf16(tensor.dtype, tensor.bytes, halves);
    touch(std::as_bytes(std::span(numbers)));
    touch(std::as_bytes(std::span(halves)));
  }

  void touch(const GgufArray& array) {
    touch(array.packed);
    for (const std::string_view text : array.strings) touch(text);
    for (const GgufArray& inner : array.arrays) touch(inner);
  }

  void touch(const Gguf& file) {
    for (const auto& [key, value] : file.metadata()) {
      touch(key);
      touch(describe_type(value));
      if (const auto* text = std::get_if<std::string_view>(&value)) touch(*text);
      if (const auto* array = std::get_if<GgufArray>(&value)) touch(*array);
      sum += file.get<std::int32_t>(key).value_or(0) != 0;
      sum += file.get<double>(key).value_or(0.0) > 0;
      sum += file.get<std::vector<std::int32_t>>(key).has_value();
      sum += file.get<std::vector<float>>(key).has_value();
      sum += file.get<std::vector<bool>>(key).has_value();
      sum += file.get<std::span<const std::string_view>>(key).has_value();
    }
    for (const TensorView& tensor : file.tensors()) {
      ASSERT_EQ(file.find(tensor.name), &tensor);
      touch(tensor);
    }
  }
};

// A message is one printable line, whatever names the file holds.
void expect_readable(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(printable(error.message, error.message.size()), error.message);
}

void report(const Walk& walk, std::uint64_t mutants) {
  ::testing::Test::RecordProperty("mutants", static_cast<int>(mutants));
  ::testing::Test::RecordProperty("parsed", static_cast<int>(walk.parsed));
  EXPECT_GT(walk.parsed, 0u) << "no mutant parses: the walk is not tested";
  EXPECT_GT(walk.refused, 0u) << "every mutant parses: they are not damaged";
}

TEST(FormatsMutation, DamagedGgufNeverCrashes) {
  const std::vector<Bytes> seeds{bytes_of(testing::small_gguf()),
                                 bytes_of(testing::read_file(std::string(kData) + "blocks.gguf"))};
  Walk walk;
  const auto mutants = for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<Gguf> file = parse_gguf(mutant);
    file ? ++walk.parsed : ++walk.refused;
    file ? walk.touch(*file) : expect_readable(file.error());
  });
  report(walk, mutants);
}

TEST(FormatsMutation, DamagedSafetensorsNeverCrashes) {
  const std::vector<Bytes> seeds{
      bytes_of(testing::read_file(std::string(kData) + "plain.safetensors"))};
  Walk walk;
  const auto mutants = for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<Safetensors> file = parse_safetensors(mutant);
    file ? ++walk.parsed : ++walk.refused;
    if (!file) return expect_readable(file.error());
    for (const TensorView& tensor : file->tensors()) walk.touch(tensor);
  });
  report(walk, mutants);
}

TEST(FormatsMutation, DamagedJsonNeverCrashes) {
  constexpr std::string_view kTokenizer =
      R"({"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true}],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","use_regex":true}]},)"
      R"("model":{"type":"BPE","vocab":{"<s>":0,"a":1,"\u0120the":2,"é":3},"merges":["a b",["c","d"]]},)"
      R"("eos_token_id":[0,2],"eps":1e-05})";
  const std::vector<Bytes> seeds{bytes_of(kTokenizer)};
  Walk walk;
  const auto mutants = for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<nlohmann::json> document = parse_json(text_of(mutant), {.depth = 20});
    document ? ++walk.parsed : ++walk.refused;
    if (!document) return expect_readable(document.error());
    const std::string text = document->dump();  // recursive: the depth limit is what keeps it safe
    EXPECT_EQ(nlohmann::json::parse(text), *document);
    walk.sum += static_cast<bool>(parse_end_of_sequence(*document, {}));
    walk.sum += static_cast<bool>(json_field<std::int64_t>(*document, "eos_token_id"));
    walk.sum += static_cast<bool>(json_field<double>(*document, "eps"));
  });
  report(walk, mutants);
}

TEST(FormatsMutation, DamagedIdxNeverCrashes) {
  const std::string images = testing::idx_file({3, 4, 5}, testing::some_values(60));
  const std::vector<Bytes> seeds{bytes_of(images), bytes_of(testing::gzipped(images)),
                                 bytes_of(testing::idx_file({9}, testing::some_values(9)))};
  Walk walk;
  const auto mutants = for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<IdxBytes> file = parse_idx(mutant);
    file ? ++walk.parsed : ++walk.refused;
    if (!file) return expect_readable(file.error());
    ASSERT_EQ(element_count(file->shape), static_cast<std::int64_t>(file->values.size()));
    walk.touch(std::as_bytes(std::span(file->values)));
  });
  report(walk, mutants);
}

TEST(FormatsMutation, DamagedJinjaNeverCrashes) {
  const std::string folder = FORERUN_SOURCE_DIR "/tests/data/jinja/";
  const auto expected =
      nlohmann::ordered_json::parse(testing::read_file(folder + "expected.json"))["contexts"];
  std::vector<Bytes> seeds;
  for (const char* name : {"macros", "qwen3", "mistral", "llama31", "gemma", "deepseek"}) {
    seeds.push_back(bytes_of(testing::read_file(folder + name + ".jinja")));
  }
  Walk walk;
  const auto mutants = for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<JinjaTemplate> parsed = JinjaTemplate::parse(text_of(mutant));
    parsed ? ++walk.parsed : ++walk.refused;
    if (!parsed) return expect_readable(parsed.error());
    const auto out = parsed->render(expected[i % expected.size()], {},
                                    {.limits = {.steps = 20'000, .bytes = 1 << 20}, .now = 0});
    if (!out) return expect_readable(out.error());
    EXPECT_TRUE(is_valid_utf8(out->text));
    std::size_t done = 0;
    for (const TextRange& r : out->plain) {
      EXPECT_TRUE(done <= r.begin && r.begin < r.end && r.end <= out->text.size());
      done = r.end;
    }
  });
  report(walk, mutants);
}

// As damaged, and with the checksums made right again: else nearly all damage ends there.
TEST(FormatsMutation, DamagedPngNeverCrashes) {
  std::vector<Bytes> seeds;
  const auto add = [&](testing::PngSpec spec) {
    spec.width = spec.height = 9;
    for (std::size_t i = 0; i < 81 * testing::samples_per_pixel(spec.colour); ++i) {
      spec.samples.push_back(static_cast<std::uint16_t>(i & ((1u << spec.depth) - 1)));
    }
    seeds.push_back(bytes_of(testing::build_png(spec)));
  };
  add({.depth = 16, .colour = 6, .interlaced = true});
  add({.depth = 4, .colour = 3, .palette = std::string(48, 'p'), .transparency = "abc"});
  add({.depth = 1,
       .colour = 0,
       .transparency = std::string("\0\1", 2),
       .chunks = testing::png_chunk("gAMA", testing::big_endian(45455))});
  add({.depth = 8, .colour = 2});
  Walk walk;
  const auto mutants = for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Bytes mended = bytes_of(testing::with_right_checksums(std::string(text_of(mutant))));
    for (const Bytes& bytes : {mutant, mended}) {
      const Result<Image> image = parse_png(bytes);
      image ? ++walk.parsed : ++walk.refused;
      if (!image) {
        expect_readable(image.error());
        continue;
      }
      ASSERT_TRUE(image->channels == 1 || image->channels == 3);
      ASSERT_EQ(image->width * image->height * image->channels,
                static_cast<std::int64_t>(image->pixels.size()));
      walk.touch(std::as_bytes(std::span(image->pixels)));
    }
  });
  report(walk, mutants);
}

}  // namespace
}  // namespace forerun
