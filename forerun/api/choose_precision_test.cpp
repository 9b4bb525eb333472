#include "forerun/api/choose_precision.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_folder.h"

namespace forerun {
namespace {

const CpuFeatures kOld{.name = "Core 2"};
const CpuFeatures kCommon{.name = "Ryzen", .avx2 = true};
const CpuFeatures kNew{.name = "Xeon", .avx2 = true, .avx512_vnni = true, .avx512_bf16 = true};

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(ChoosePrecision, AutoIsTheFastestThatCanBeHadAndNeverFails) {
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew).precision, Precision::kInt8);
  EXPECT_EQ(text_precision("m", kAutoPrecision, kCommon).precision, Precision::kInt8);
  EXPECT_EQ(text_precision("m", kAutoPrecision, kOld).precision, Precision::kF32);
  EXPECT_EQ(image_precision("m", kAutoPrecision, kNew, true).precision, Precision::kBF16);
  EXPECT_EQ(image_precision("m", kAutoPrecision, kCommon, true).precision, Precision::kBF16);
  EXPECT_EQ(image_precision("m", kAutoPrecision, kNew, false).precision, Precision::kF32);
  EXPECT_EQ(image_precision("m", kAutoPrecision, kOld, false).precision, Precision::kF32);
}

TEST(ChoosePrecision, WeightsThatDoNotFitInInt8StayInTheirFile) {
  const TextModelSizes large{
      .weights = 7'600'000'000, .largest = 545'000'000, .available = 9'000'000'000};
  const ChosenPrecision chosen = text_precision("m", kAutoPrecision, kNew, large);
  EXPECT_EQ(chosen.precision, Precision::kFile);
  EXPECT_FALSE(chosen.fastest);
  EXPECT_EQ(chosen.reason, "9.0 GB of memory are free, int8 takes 12.0");
  EXPECT_EQ(text_precision("m", Precision::kInt8, kNew, large).precision, Precision::kInt8);
  EXPECT_EQ(text_precision("m", Precision::kFile, kNew).precision, Precision::kFile);
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, {.weights = 4, .available = 6}).precision,
            Precision::kInt8);
  const TextModelSizes tiny =
      text_model_sizes(FORERUN_SOURCE_DIR "/tests/data/tiny/qwen2/model.gguf");
  EXPECT_GT(tiny.weights, 1000U);
  EXPECT_LT(tiny.weights, tiny.available);
  const TextModelSizes none = text_model_sizes("/no/such/model");
  EXPECT_EQ(none.weights, 0U);
  // Its loader says what is wrong with it.
  EXPECT_EQ(text_precision("m", Precision::kInt4, kNew, none).precision, Precision::kInt4);
}

TEST(ChoosePrecision, Int4IsForFilesWithMatricesInFourBits) {
  const TextModelSizes four{.weights = 1000, .largest = 100, .available = 2000, .four_bits = 800};
  EXPECT_EQ(text_precision("m", Precision::kInt4, kNew, four).precision, Precision::kInt4);
  EXPECT_EQ(text_precision("m", Precision::kInt4, kCommon, four).precision, Precision::kInt4);
  EXPECT_EQ(text_precision("m", Precision::kInt8, kNew, four).precision, Precision::kInt8);
  EXPECT_EQ(refusal([] { static_cast<void>(text_precision("m", Precision::kInt4, kNew)); }),
            "m cannot be computed in int4: none of its layers' matrices is stored in 4 bits (Q4_0, "
            "Q4_1, Q4_K, MXFP4); ask for file, bf16, f32, int8, auto");
  EXPECT_NE(refusal([&] { static_cast<void>(text_precision("m", Precision::kInt4, kOld, four)); }),
            "");
  EXPECT_EQ(text_model_sizes(FORERUN_SOURCE_DIR "/tests/data/tiny/qwen2/model.gguf").four_bits, 0U);
}

// Of layers alone, and of matrices that are one product all or none.
TEST(ChoosePrecision, CountsWhatInt4Keeps) {
  constexpr std::uint32_t kQ4_1 = 3, kQ6_K = 14;
  constexpr std::uint64_t kWeights = 65536;  // [256, 256]
  const testing::TempFolder folder;
  const auto counted = [&](std::initializer_list<std::pair<const char*, std::uint32_t>> tensors) {
    testing::GgufBuilder file;
    for (const auto& [name, type] : tensors) {
      file.tensor(name, {256, 256}, type, file.data.size());
      file.data.append(type == kQ6_K ? kWeights / 256 * 210 : kWeights / 32 * 20, '\0');
    }
    return text_model_sizes(folder.write("m.gguf", file.bytes()).string()).four_bits / kWeights;
  };
  EXPECT_EQ(counted({{"token_embd.weight", kQ4_1}, {"blk.0.ffn_down.weight", kQ4_1}}), 1U);
  EXPECT_EQ(counted({{"blk.0.ffn_down.weight", kQ6_K}, {"blk.1.ffn_down.weight", kQ4_1}}), 1U);
  for (const std::uint32_t v : {kQ4_1, kQ6_K}) {
    EXPECT_EQ(counted({{"blk.0.attn_q.weight", kQ4_1},
                       {"blk.0.attn_k.weight", kQ4_1},
                       {"blk.0.attn_v.weight", v}}),
              v == kQ4_1 ? 3U : 0U);
  }
  EXPECT_EQ(counted({{"blk.0.ffn_gate_exps.weight", kQ4_1}, {"blk.0.ffn_up_exps.weight", kQ4_1}}),
            2U);
  EXPECT_EQ(counted({{"blk.0.ffn_gate_exps.weight", kQ4_1}, {"blk.0.ffn_up_exps.weight", kQ6_K}}),
            0U);
}

// In every pass whole texts: int4 is slower with AVX-512, and faster with AVX2 alone.
TEST(ChoosePrecision, DiffusionLanguageModelsHaveManyRows) {
  EXPECT_EQ(rows_of_whole_texts(kNew), PassRows::kMany);
  EXPECT_EQ(rows_of_whole_texts(kCommon), PassRows::kFew);
}

TEST(ChoosePrecision, AutoIsInt4WhereHalfOfTheWeightsAreInFourBits) {
  TextModelSizes sizes{.weights = 1000, .largest = 100, .available = 10000, .four_bits = 500};
  const auto chosen = [&](const CpuFeatures& cpu) {
    return text_precision("m", kAutoPrecision, cpu, sizes);
  };
  EXPECT_EQ(chosen(kNew).precision, Precision::kInt4);
  EXPECT_EQ(chosen(kCommon).precision, Precision::kInt4);
  EXPECT_TRUE(chosen(kNew).fastest);
  EXPECT_EQ(chosen(kNew).reason, "the fastest on this processor");
  EXPECT_EQ(chosen(kOld).precision, Precision::kF32);
  CpuFeatures amx = kNew;
  amx.amx_int8 = true;  // one choice for all processors with AVX2: a seed has one text
  EXPECT_EQ(chosen(amx).precision, Precision::kInt4);
  sizes.four_bits = 499;
  EXPECT_EQ(chosen(kNew).precision, Precision::kInt8);
  sizes.four_bits = 1000;
  sizes.rows = PassRows::kMany;
  EXPECT_EQ(chosen(kNew).precision, Precision::kInt8);
}

// Of 1,800 bytes in int8 300 are spared.
TEST(ChoosePrecision, WhatFitsInInt4AloneIsInInt4) {
  TextModelSizes sizes{.weights = 1000,
                       .largest = 100,
                       .available = 1799,
                       .four_bits = 800,
                       .rows = PassRows::kMany};
  const ChosenPrecision chosen = text_precision("m", kAutoPrecision, kNew, sizes);
  EXPECT_EQ(chosen.precision, Precision::kInt4);
  EXPECT_FALSE(chosen.fastest);
  sizes.available = 1500;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kInt4);
  sizes.available = 1499;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kFile);
  sizes.rows = PassRows::kFew;  // int4 is the first choice then, and memory the same limit
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kFile);
  sizes.available = 1500;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kInt4);
  EXPECT_TRUE(text_precision("m", kAutoPrecision, kNew, sizes).fastest);
  EXPECT_EQ(chosen.reason, "0.0 GB of memory are free, int8 takes 0.0");
  sizes.available = 1499;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).reason,
            "0.0 GB of memory are free, int4 takes 0.0");
}

// A layer is in float32 while it is packed: that of experts is large.
TEST(ChoosePrecision, ALayerInFloat32HasToFit) {
  TextModelSizes sizes{.weights = 1000, .largest = 10, .layer = 100, .available = 1480};
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kInt8);
  sizes.available = 1479;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kFile);
  const TextModelSizes tiny = text_model_sizes(kTiny + "qwen3_moe");
  EXPECT_EQ(tiny.largest, 160U * 64);
  EXPECT_EQ(tiny.layer, 8U * 3 * 32 * 64 + 8 * 64 + 2 * (64 + 32) * 64 + 2 * 64 + 2 * 16);
  EXPECT_EQ(tiny.wide_layer, tiny.layer);
  const TextModelSizes gguf = text_model_sizes(kTiny + "mixtral/model.gguf");
  EXPECT_EQ(gguf.layer, 4U * 3 * 64 * 64 + 4 * 64 + 2 * (64 + 32) * 64 + 2 * 64);
}

// MXFP4 in a Hugging Face folder and in a GGUF file; a layer of it is not in float32 while it is
// packed in int4.
TEST(ChoosePrecision, GptOssIsInFourBitsInBothKindsOfFiles) {
  constexpr std::uint64_t kExperts = 4U * 3 * 64 * 32, kAttention = 2 * (128 + 64) * 64;
  for (const char* file : {"gpt_oss_mxfp4", "gpt_oss_mxfp4/model.gguf"}) {
    const TextModelSizes sizes = text_model_sizes(kTiny + file);
    EXPECT_EQ(sizes.four_bits, 2 * kExperts) << file;
    EXPECT_EQ(sizes.layer - sizes.wide_layer, kExperts) << file;
    EXPECT_GE(sizes.wide_layer, kAttention) << file;
    EXPECT_LT(sizes.wide_layer, kAttention + 2500) << file;  // and router, biases, norms, sinks
  }
  TextModelSizes sizes{.weights = 1000, .largest = 10, .layer = 100, .available = 750};
  sizes.four_bits = 1000;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kInt4);
  sizes.wide_layer = 100;
  EXPECT_EQ(text_precision("m", kAutoPrecision, kNew, sizes).precision, Precision::kFile);
}

TEST(ChoosePrecision, ImageTokensAreInBf16WhereThatIsFasterAndOnRequest) {
  CpuFeatures fast = kNew;
  fast.fast_bf16 = true;
  EXPECT_EQ(token_image_precision("m", kAutoPrecision, fast).precision, Precision::kBF16);
  EXPECT_EQ(token_image_precision("m", kAutoPrecision, kNew).precision, Precision::kF32);
  EXPECT_TRUE(token_image_precision("m", kAutoPrecision, kNew).fastest);
  EXPECT_EQ(token_image_precision("m", Precision::kBF16, kCommon).precision, Precision::kBF16);
  EXPECT_EQ(token_image_precision("m", Precision::kF32, fast).precision, Precision::kF32);
  EXPECT_NE(refusal([] { static_cast<void>(token_image_precision("m", Precision::kBF16, kOld)); }),
            "");
  EXPECT_NE(refusal([] { static_cast<void>(token_image_precision("m", Precision::kInt8, kNew)); }),
            "");
}

TEST(ChoosePrecision, GivesAReasonWhereAutoIsNotTheFastest) {
  const ChosenPrecision old = text_precision("m", kAutoPrecision, kOld);
  EXPECT_FALSE(old.fastest);
  EXPECT_NE(old.reason.find("Core 2"), std::string::npos) << old.reason;
  EXPECT_NE(image_precision("m", kAutoPrecision, kNew, false).reason.find("sizes"),
            std::string::npos);
  EXPECT_TRUE(text_precision("m", kAutoPrecision, kNew).fastest);
}

// Texts were computed in float32 without a word, images threw.
TEST(ChoosePrecision, UnavailablePrecisionIsRefusedForTextsAndImages) {
  const std::string text =
      refusal([] { static_cast<void>(text_precision("m.gguf", Precision::kInt8, kOld)); });
  EXPECT_NE(text.find("m.gguf cannot be computed in int8"), std::string::npos) << text;
  EXPECT_NE(text.find("ask for file, bf16, f32, auto"), std::string::npos) << text;
  const std::string image =
      refusal([] { static_cast<void>(image_precision("dit", Precision::kBF16, kOld, false)); });
  EXPECT_NE(image.find("dit cannot be computed in bf16"), std::string::npos) << image;
  EXPECT_NE(image.find("ask for f32, auto"), std::string::npos) << image;
  EXPECT_NE(
      refusal([] { static_cast<void>(image_precision("dit", Precision::kInt8, kNew, true)); }), "");
  EXPECT_EQ(text_precision("m", Precision::kBF16, kOld).precision, Precision::kBF16);
}

}  // namespace
}  // namespace forerun
