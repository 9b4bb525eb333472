// A target's states as read in training, against transformers' and against the store's copies.
#include "forerun/train/answers/target_states.h"

#include <gtest/gtest.h>

#include "forerun/models/frozen_decoder.h"
#include "tests/support/dflash_training.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::FileSizeLimit;
using testing::head_of;
using testing::some_tokens;
using testing::TempFolder;
using testing::tiny_target;

struct Reference {
  Safetensors file = load_safetensors(kTiny + "llama_plain/expected.safetensors");
  std::vector<Token> first = tokens_of(file, "tokens_0"), second = tokens_of(file, "tokens_1");
};

TEST(TargetStates, OfPackedDocumentsEqualTransformersInTheRequestedOrder) {
  const Reference r;
  const auto target = tiny_target();
  TargetStates states(target, head_of(*target), {1, 0});
  const std::vector<std::span<const Token>> documents = {r.second, r.first};
  for (int again = 0; again < 2; ++again) {  // with caches that were used before
    const TargetStates::Batch b = states.of(documents);
    const std::int64_t n = 40, before = 23, hidden = 48;
    ASSERT_EQ(b.features.sizes(), (at::IntArrayRef{before + n, 2 * hidden}));
    const at::Tensor rows = b.features.narrow(0, before, n);
    EXPECT_LT(distance(rows.narrow(1, 0, hidden), tensor_of(r.file, "hidden_1_0")), 2e-4);
    EXPECT_LT(distance(rows.narrow(1, hidden, hidden), tensor_of(r.file, "hidden_0_0")), 2e-4);
    // The packed neighbour changes nothing.
    EXPECT_LT(distance(b.last.narrow(0, before, n),
                       states_of(*target, r.first, {2}, {r.first.size()}).squeeze(1)),
              2e-4);
  }
}

// As on another device: by the pass of training, from a frozen copy.
TEST(TargetStates, AsInTrainingAreTheSame) {
  const std::vector<Token> first = some_tokens(23, 1, 150), second = some_tokens(40, 2, 150);
  const std::vector<std::span<const Token>> documents = {second, first};
  for (const char* const family : {"llama_plain", "qwen3", "gemma3"}) {
    const auto target = tiny_target(family);
    const auto copy = std::make_shared<const DecoderLm>(frozen_decoder(*target, at::kFloat));
    TargetStates here(target, head_of(*target), {1, 0}),
        there(copy, head_of(*target), {1, 0}, /*as_training=*/true);
    EXPECT_EQ(here.products_of_row(), 0.0);
    EXPECT_GT(there.products_of_row(), 0.0);
    const TargetStates::Batch want = here.of(documents), have = there.of(documents);
    EXPECT_EQ(want.features.sizes(), have.features.sizes());
    EXPECT_LT(distance(have.features, want.features), 2e-4) << family;
    EXPECT_LT(distance(have.last, want.last), 2e-4) << family;
    EXPECT_LT(distance(there.probabilities(have.last), here.probabilities(want.last)), 2e-5);
  }
}

TEST(TargetStates, LawIsTheTargetsOverTheDraftVocabularyAlone) {
  const Reference r;
  const auto target = tiny_target();
  const at::Tensor drafted = at::tensor({3, 4, 50, 77, 175}, at::kLong);
  TargetStates states(target, head_of(*target, drafted), {0});
  const std::vector<std::span<const Token>> documents = {r.first};
  const at::Tensor law = states.probabilities(states.of(documents).last);
  const at::Tensor logits = tensor_of(r.file, "logits_0").index_select(1, drafted);
  EXPECT_LT(distance(law.log(), at::log_softmax(logits, -1)), 2e-4);
  EXPECT_LT((law.sum(1) - 1.0).abs().max().item<double>(), 1e-5);
}

TEST(TargetStates, WhatADraftVocabularyCoversIsItsShareOfTheWholeLaw) {
  const Reference r;
  const auto target = tiny_target();
  const at::Tensor drafted = at::tensor({3, 4, 50, 77, 175}, at::kLong);
  TargetStates states(target, head_of(*target, drafted), {0});
  std::vector<std::span<const Token>> documents;
  for (int i = 0; i < 15; ++i) documents.push_back(r.first);  // more rows than one pass takes
  const at::Tensor share = states.covered(states.of(documents).last);
  const at::Tensor law = at::softmax(tensor_of(r.file, "logits_0"), -1);
  EXPECT_LT(distance(share, law.index_select(1, drafted).sum(1).repeat({15})), 1e-4);
  EXPECT_LT(share.max().item<double>(), 0.9);
  TargetStates all(target, head_of(*target), {0});
  EXPECT_FALSE(all.covered(all.of(documents).last).defined());
}

TEST(TargetStates, SoftCapsAreThoseOfTheTarget) {
  const auto target = tiny_target("gemma3_softcap");
  const Safetensors file = load_safetensors(kTiny + "gemma3_softcap/expected.safetensors");
  const auto tokens = tokens_of(file, "tokens_0");
  TargetStates states(target, head_of(*target), {0});
  const std::vector<std::span<const Token>> documents = {tokens};
  const at::Tensor law = states.probabilities(states.of(documents).last);
  EXPECT_LT(distance(law.log(), at::log_softmax(tensor_of(file, "logits_0"), -1)), 2e-4);
}

class StatesInAStore : public ::testing::Test {
 protected:
  StatesInAStore() {
    for (std::size_t i = 0; i < 4; ++i) {
      texts.push_back(some_tokens(6 + 5 * i, static_cast<std::uint32_t>(i)));
      rows.push_back(static_cast<std::int64_t>(texts.back().size()));
    }
  }
  TargetStates::Batch of(const std::vector<std::size_t>& numbers, StateStore& store) {
    return states.of(chosen(numbers), numbers, store);
  }
  std::vector<std::span<const Token>> chosen(const std::vector<std::size_t>& numbers) const {
    std::vector<std::span<const Token>> out;
    for (const std::size_t i : numbers) out.push_back(texts[i]);
    return out;
  }
  bool has(const StateStore& store, std::size_t document) const {
    const at::Tensor features = at::empty({rows[document], states.shape().features}, at::kFloat);
    return store.get(document, features,
                     at::empty({rows[document], states.shape().last}, at::kFloat));
  }
  static void expect_close(const TargetStates::Batch& a, const TargetStates::Batch& b) {
    const double largest = b.features.abs().max().item<double>();
    EXPECT_LT(distance(a.features, b.features), largest / 254.0 * 1.01);
    EXPECT_LT(((a.last - b.last).abs() / b.last.abs().clamp_min(1e-3)).max().item<double>(), 0.01);
  }

  TempFolder folder;
  std::vector<std::vector<Token>> texts;
  std::vector<std::int64_t> rows;
  std::shared_ptr<const DecoderLm> target = tiny_target();
  TargetStates states{target, head_of(*target), {0, 1}};
};

TEST_F(StatesInAStore, StatesAreThoseOfAPassWithinTheStoresError) {
  StateStore store(folder.path() / "s", states.shape(), rows, "key");
  const std::vector<std::size_t> numbers = {2, 0};
  expect_close(of(numbers, store), states.of(chosen(numbers)));
  EXPECT_TRUE(has(store, 0) && has(store, 2) && !has(store, 1) && !has(store, 3));
}

// Some stored, some not, in any order: every epoch and every process learns from the same numbers.
TEST_F(StatesInAStore, EpochsReadTheSameNumbersWhateverElseIsInTheBatch) {
  std::vector<TargetStates::Batch> single;
  {
    StateStore store(folder.path() / "s", states.shape(), rows, "key");
    for (std::size_t i = 0; i < 3; ++i) single.push_back(of({i}, store));
  }
  StateStore store(folder.path() / "s", states.shape(), rows, "key");
  const TargetStates::Batch mixed = of({1, 3, 0, 2}, store);
  std::int64_t row = 0;
  for (const std::size_t i : {1, 3, 0, 2}) {
    if (i < 3) {
      EXPECT_TRUE(at::equal(mixed.features.narrow(0, row, rows[i]), single[i].features)) << i;
      EXPECT_TRUE(at::equal(mixed.last.narrow(0, row, rows[i]), single[i].last)) << i;
    }
    row += rows[i];
  }
  expect_close(mixed, states.of(chosen({1, 3, 0, 2})));
}

// The store is read, not only written: a document with another's number would be noticed.
TEST_F(StatesInAStore, WhatIsThereIsNotComputedAgain) {
  StateStore store(folder.path() / "s", states.shape(), rows, "key");
  const TargetStates::Batch before = of({1}, store);
  texts[1].assign(texts[1].size(), 5);
  EXPECT_TRUE(at::equal(of({1}, store).features, before.features));
}

TEST_F(StatesInAStore, AFullDiskChangesNoNumbers) {
  const std::vector<std::size_t> numbers = {0, 3};
  StateStore roomy(folder.path() / "r", states.shape(), rows, "key");
  const TargetStates::Batch expected = of(numbers, roomy);
  StateStore store(folder.path() / "s", states.shape(), rows, "key");
  const FileSizeLimit full(std::filesystem::file_size(folder.path() / "s") + 64);
  const TargetStates::Batch b = of(numbers, store);
  EXPECT_TRUE(at::equal(b.features, expected.features));
  EXPECT_TRUE(at::equal(b.last, expected.last));
  EXPECT_FALSE(has(store, 3));
}

}  // namespace
}  // namespace forerun
