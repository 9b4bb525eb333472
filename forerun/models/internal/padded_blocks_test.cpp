// Padded attention, for other devices, equals that of the CPU's own loops, and so do its gradients.
#include "forerun/models/internal/padded_blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "forerun/models/internal/packed_documents.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using internal::BlockAttention;
using internal::BlockPlaces;
using internal::PackedDocuments;
using internal::PaddedBlocks;
using internal::PaddedRows;

// What `f` computes, and the gradients by its inputs of a sum that weighs every number of it.
template <class F>
std::vector<at::Tensor> with_gradients(std::vector<at::Tensor>& inputs, F&& f) {
  const at::Tensor out = f();
  std::vector<at::Tensor> result = {out.detach()};
  (out * at::arange(out.numel(), out.options()).view(out.sizes()).sin()).sum().backward();
  for (at::Tensor& x : inputs) {
    result.push_back(x.grad().clone());
    x.mutable_grad().reset();
  }
  return result;
}

constexpr std::int64_t kHeads = 6, kKvHeads = 2, kDim = 8;

TEST(PaddedRows, ComeBackInOrder) {
  const std::vector<std::int64_t> lengths = {3, 0, 5, 1};
  const PaddedRows padded(lengths, at::kCPU, 4);
  EXPECT_EQ(padded.length(), 8);
  const at::Tensor x = at::randn({9, 2, 3});
  const at::Tensor wide = padded.pad(x);
  ASSERT_EQ(wide.sizes(), (at::IntArrayRef{4, 8, 2, 3}));
  EXPECT_TRUE(at::equal(wide[2].narrow(0, 0, 5), x.narrow(0, 3, 5)));
  EXPECT_TRUE(at::equal(padded.unpad(wide), x));
}

struct Case {
  const char* name;
  LayerAttention attention;
  std::int64_t first_slot;
};

class PaddedBlocksTest : public ::testing::TestWithParam<Case> {};

TEST_P(PaddedBlocksTest, AreTheBlocksOneByOne) {
  // Both ends, neighbours closer than a block, a document without blocks, an anchor without rows.
  const BlockPlaces places{.block = 3,
                           .first_slot = GetParam().first_slot,
                           .lengths = {13, 4, 21},
                           .anchors = {{0, 3, 5, 12}, {}, {16, 7, 8, 20, 1}}};
  const std::int64_t slots = 9 * 3, rows = 38;
  const auto random = [](std::int64_t n, std::int64_t heads) {
    return at::randn({n, heads, kDim}, at::kDouble).requires_grad_();
  };
  std::vector<at::Tensor> inputs = {random(slots, kHeads), random(slots, kKvHeads),
                                    random(slots, kKvHeads), random(rows, kKvHeads),
                                    random(rows, kKvHeads)};
  const auto run = [&](const auto& attention) {
    return with_gradients(inputs, [&] {
      return attention(inputs[0], {inputs[1], inputs[2]}, KeysValues{inputs[3], inputs[4]});
    });
  };
  const auto want = run(BlockAttention(places, GetParam().attention));
  const auto have = run(PaddedBlocks(places, GetParam().attention, inputs[0], kHeads / kKvHeads));
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_GT(want[i].abs().max().item<double>(), 0.1) << i;
    EXPECT_LT((want[i] - have[i]).abs().max().item<double>(), 1e-12) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, PaddedBlocksTest,
                         ::testing::Values(Case{"everything", {}, 0}, Case{"causal", {0, true}, 0},
                                           Case{"window", {4, false}, 1},
                                           Case{"both", {3, true}, 1}),
                         [](const auto& test) { return std::string(test.param.name); });

class PaddedDocumentsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PaddedDocumentsTest, AreTheDocumentsOneByOne) {
  const std::string folder = kTiny + GetParam();
  const DecoderConfig c =
      load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32)
          .config;
  const std::vector<Token> a(11, 3), b(1, 3), d(30, 3);
  const std::vector<std::span<const Token>> documents = {a, b, d};
  const auto random = [&](std::int64_t heads) {
    return at::randn({42, heads, c.head_dim}, at::kDouble).requires_grad_();
  };
  std::vector<at::Tensor> inputs = {random(c.heads), random(c.kv_heads), random(c.kv_heads)};
  const auto run = [&](const PackedDocuments& packed, std::size_t layer) {
    return with_gradients(inputs, [&] {
      return packed.attention(layer, inputs[0], {inputs[1], inputs[2]});
    });
  };
  const PackedDocuments one(documents, c), all(documents, c, at::kCPU, true);
  EXPECT_TRUE(at::equal(one.ids(), all.ids()));
  for (std::size_t layer = 0; layer < c.sliding.size(); ++layer) {
    const auto want = run(one, layer), have = run(all, layer);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LT((want[i] - have[i]).abs().max().item<double>(), 1e-10) << layer << ' ' << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PaddedDocumentsTest,
                         ::testing::Values("llama", "llama_plain", "qwen3", "gemma3",
                                           "gemma3_softcap"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace forerun
