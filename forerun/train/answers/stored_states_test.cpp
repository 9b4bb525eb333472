// When a store of states is opened, and what is read from it.
#include "forerun/train/answers/stored_states.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/base/result.h"
#include "tests/support/dflash_training.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::head_of;
using testing::read_file;
using testing::some_tokens;
using testing::TempFolder;
using testing::tiny_target;

using Numbered = std::vector<std::size_t>;

class StatesOfAnswers : public ::testing::Test {
 protected:
  StatesOfAnswers() {
    for (std::size_t i = 0; i < 3; ++i) {
      texts.push_back(some_tokens(6 + 5 * i, static_cast<std::uint32_t>(i)));
    }
  }
  forerun::StoredStates states(const std::string& file, const std::string& key = "key",
                               const std::vector<std::int64_t>& layers = {0, 1}) const {
    return forerun::StoredStates(target, head_of(*target), layers, file, key);
  }
  std::vector<AnswerDocument> documents() const {
    std::vector<AnswerDocument> out;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      out.push_back({.tokens = texts[i], .prompt = 1, .key = i, .number = i});
    }
    return out;
  }
  TargetStates::Batch of(forerun::StoredStates& from, const Numbered& numbers) const {
    const std::vector<AnswerDocument> all = documents();
    std::vector<AnswerDocument> some;
    for (const std::size_t i : numbers) some.push_back(all[i]);
    return from.of(some, all);
  }
  // As a store that was not there before gives them.
  TargetStates::Batch fresh(const Numbered& numbers, const std::string& key,
                            const std::vector<std::int64_t>& layers = {0, 1}) const {
    const TempFolder elsewhere;
    forerun::StoredStates from = states((elsewhere.path() / "states").string(), key, layers);
    return of(from, numbers);
  }
  static void expect_equal(const TargetStates::Batch& a, const TargetStates::Batch& b) {
    EXPECT_TRUE(at::equal(a.features, b.features));
    EXPECT_TRUE(at::equal(a.last, b.last));
  }

  TempFolder folder;
  std::string path = (folder.path() / "states").string();
  std::vector<std::vector<Token>> texts;
  std::shared_ptr<const DecoderLm> target = tiny_target();
};

TEST_F(StatesOfAnswers, WithoutAStoreAreThoseOfAPass) {
  forerun::StoredStates from = states("");
  TargetStates plain(target, head_of(*target), {0, 1});
  const std::vector<std::span<const Token>> tokens = {texts[2], texts[0]};
  expect_equal(of(from, {2, 0}), plain.of(tokens));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(StatesOfAnswers, ComeFromTheStoreOnceTheyAreThere) {
  forerun::StoredStates first = states(path), plain = states("");
  const TargetStates::Batch stored = of(first, {2, 0}), exact = of(plain, {2, 0});
  const double largest = exact.features.abs().max().item<double>();
  EXPECT_LT(distance(stored.features, exact.features), largest / 254.0 * 1.01);
  EXPECT_FALSE(at::equal(stored.features, exact.features));
  // Of a text in place of the third the third's are given: nothing is computed again.
  forerun::StoredStates second = states(path);
  const std::vector<AnswerDocument> all = documents();
  const std::vector<Token> another(texts[2].size(), 5);
  std::vector<AnswerDocument> some = {all[2], all[0]};
  some[0].tokens = another;
  expect_equal(second.of(some, all), stored);
  // The second text is not there yet.
  expect_equal(of(second, {1}), fresh({1}, "key"));
}

TEST_F(StatesOfAnswers, OpenTheStoreAtTheFirstBatch) {
  states(path);
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    forerun::StoredStates first = states(path);
    of(first, {0, 1, 2});
  }
  const std::string before = read_file(path);
  forerun::StoredStates other = states(path, "another key");
  EXPECT_TRUE(read_file(path) == before);
  of(other, {0});
  EXPECT_FALSE(read_file(path) == before);
}

TEST_F(StatesOfAnswers, OfAnotherTargetAreNotRead) {
  const auto own = target;
  auto changed = std::make_shared<DecoderLm>(*own);
  changed->layers[1].output.weight = own->layers[1].output.weight.clone();
  changed->layers[1].output.weight.select(0, 3).add_(0.5);
  target = changed;
  TargetStates::Batch theirs;
  {
    forerun::StoredStates from = states(path, "changed");
    theirs = of(from, {0, 1});
  }
  target = own;
  {
    forerun::StoredStates same_key = states(path, "changed");
    expect_equal(of(same_key, {0, 1}), theirs);  // the key alone tells
  }
  forerun::StoredStates from = states(path, "own");
  const TargetStates::Batch ours = of(from, {0, 1});
  expect_equal(ours, fresh({0, 1}, "own"));
  EXPECT_FALSE(at::equal(ours.features, theirs.features));
}

TEST_F(StatesOfAnswers, OfOtherLayersOrDocumentsAreNotRead) {
  const auto fill = [&] {
    forerun::StoredStates from = states(path);
    return of(from, {0, 1, 2});
  };
  const TargetStates::Batch filled = fill();
  {
    forerun::StoredStates swapped = states(path, "key", {1, 0});
    const TargetStates::Batch have = of(swapped, {0, 1, 2});
    expect_equal(have, fresh({0, 1, 2}, "key", {1, 0}));
    EXPECT_FALSE(at::equal(have.features, filled.features));
  }
  const auto changed = [&](const char* what) {
    SCOPED_TRACE(what);
    forerun::StoredStates from = states(path);
    const TargetStates::Batch have = of(from, {0, 1, 2});
    expect_equal(have, fresh({0, 1, 2}, "key"));
    EXPECT_FALSE(at::equal(have.features, filled.features));
  };
  const auto texts_before = texts;
  fill();
  texts[1][0] ^= 1;
  changed("a token");
  texts = texts_before;
  fill();
  // The same tokens, cut into documents elsewhere.
  texts[1].insert(texts[1].begin(), texts[0].back());
  texts[0].pop_back();
  changed("the lengths");
}

TEST_F(StatesOfAnswers, NeverReplaceAFileOfAnotherKind) {
  const std::string file = folder.write("precious", "a model that took a day to train").string();
  EXPECT_THROW(states(file), FormatError);
  EXPECT_EQ(read_file(file), "a model that took a day to train");
  EXPECT_THROW(states((folder.path() / "missing" / "states").string()), FormatError);
}

}  // namespace
}  // namespace forerun
