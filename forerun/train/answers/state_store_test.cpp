#include "forerun/train/answers/state_store.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "forerun/base/result.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::FileSizeLimit;
using testing::read_file;
using testing::TempFolder;

struct States {
  at::Tensor features, last;
};

bool operator==(const States& a, const States& b) {
  return at::equal(a.features, b.features) && at::equal(a.last, b.last);
}

class StateStoreFile : public ::testing::Test {
 protected:
  // 70 features: two whole groups of 32, and a rest.
  static constexpr StateStore::Shape kShape{.features = 70, .last = 9};
  static States random(std::int64_t rows, std::uint64_t seed) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return {at::randn({rows, kShape.features}, generator, at::TensorOptions(at::kFloat)),
            at::randn({rows, kShape.last}, generator, at::TensorOptions(at::kFloat))};
  }
  States get(const StateStore& store, std::size_t document) const {
    States out{at::full({rows[document], kShape.features}, 7.0, at::kFloat),
               at::full({rows[document], kShape.last}, 7.0, at::kFloat)};
    EXPECT_TRUE(store.get(document, out.features, out.last));
    return out;
  }
  // Of copies: they are replaced by what is kept.
  bool put(StateStore& store, std::size_t document, const States& s) const {
    const States kept{s.features.clone(), s.last.clone()};
    const bool there = store.put(document, kept.features, kept.last);
    EXPECT_TRUE(!there || kept == get(store, document));
    return there;
  }
  bool has(const StateStore& store, std::size_t document) const {
    const States to = random(rows[document], 0);
    return store.get(document, to.features, to.last);
  }
  std::unique_ptr<StateStore> open(const std::string& key = "key") const {
    return std::make_unique<StateStore>(path, kShape, rows, key);
  }
  // The error on opening; empty if there is none.
  std::optional<std::string> complaint(const std::filesystem::path& where,
                                       const std::string& key = "key") const {
    try {
      const StateStore store(where, kShape, rows, key);
      return std::nullopt;
    } catch (const FormatError& e) {
      const std::string line = e.what();
      EXPECT_EQ(line.rfind(where.string() + ": ", 0), 0U) << line;
      EXPECT_EQ(line.find('\n'), line.npos) << line;
      return line;
    }
  }

  TempFolder folder;
  std::filesystem::path path = folder.path() / "states";
  std::vector<std::int64_t> rows = {3, 1, 5};
};

// A feature is off by at most half a step, and a step is the largest of its 32 over 127.
TEST_F(StateStoreFile, GivesFeaturesBackWithinInt8AndLastStatesAsBf16) {
  States s = random(5, 1);
  s.features[0][3] = 1000.0;                // an outlier affects its own group only
  s.features[1].narrow(0, 32, 32).zero_();  // nothing to divide by
  s.features[2][69] = -1e-20;
  const auto store = open();
  ASSERT_TRUE(put(*store, 2, s));
  const States back = get(*store, 2);
  const at::Tensor padded = at::constant_pad_nd(s.features, {0, 26}).view({5, 3, 32});
  const at::Tensor step = (padded.abs().amax(-1, true) / 127.0).expand({5, 3, 32});
  const at::Tensor error =
      at::constant_pad_nd((back.features - s.features).abs(), {0, 26}).view({5, 3, 32});
  EXPECT_TRUE((error <= step * 0.5001).all().item<bool>());
  EXPECT_GT(error.max().item<double>(), 0.0);
  EXPECT_NEAR(back.features[0][3].item<double>(), 1000.0, 1e-3);
  EXPECT_EQ(back.features[1].narrow(0, 32, 32).abs().max().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(back.last, s.last.to(at::kBFloat16).to(at::kFloat)));
}

TEST_F(StateStoreFile, ThatCanBeUsedIsNotChangedByAsking) {
  StateStore::expect_usable(path);
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(put(*open(), 1, random(1, 5)));
  const std::string before = read_file(path);
  StateStore::expect_usable(path);
  EXPECT_EQ(read_file(path), before);
  EXPECT_THROW(StateStore::expect_usable(folder.write("other", "precious")), FormatError);
  EXPECT_EQ(read_file(folder.path() / "other"), "precious");
  EXPECT_THROW(StateStore::expect_usable(folder.path() / "none" / "states"), FormatError);
}

TEST_F(StateStoreFile, HasWhatWasPutAndNothingElse) {
  const auto store = open();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(has(*store, i));
  ASSERT_TRUE(put(*store, 2, random(5, 2)));
  ASSERT_TRUE(put(*store, 0, random(3, 3)));
  EXPECT_TRUE(has(*store, 0));
  EXPECT_FALSE(has(*store, 1));
  EXPECT_TRUE(has(*store, 2));
  const States first = get(*store, 0), third = get(*store, 2);
  ASSERT_TRUE(put(*store, 1, random(1, 4)));  // between the two
  EXPECT_TRUE(get(*store, 0) == first);
  EXPECT_TRUE(get(*store, 2) == third);
}

TEST_F(StateStoreFile, IsThereWhenOpenedAgainWithTheSameKey) {
  auto store = open();
  ASSERT_TRUE(put(*store, 1, random(1, 5)));
  const States before = get(*store, 1);
  store.reset();
  store = open();
  EXPECT_FALSE(has(*store, 0));
  ASSERT_TRUE(has(*store, 1));
  EXPECT_TRUE(get(*store, 1) == before);
}

TEST_F(StateStoreFile, BeginsAnewWithAnotherKey) {
  for (const char* other : {"other", "key2", "ke", ""}) {
    ASSERT_TRUE(put(*open(), 1, random(1, 6)));
    EXPECT_TRUE(has(*open(), 1));
    auto store = open(other);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(has(*store, i)) << other;
    store.reset();
    EXPECT_FALSE(has(*open(), 1)) << "nor does the old key come back behind " << other;
  }
}

TEST_F(StateStoreFile, OneFileServesTwoAtATime) {
  const auto a = open(), b = open();
  ASSERT_TRUE(put(*a, 0, random(3, 7)));
  ASSERT_TRUE(put(*b, 1, random(1, 8)));
  EXPECT_TRUE(has(*b, 0));
  EXPECT_TRUE(get(*b, 0) == get(*a, 0));
  EXPECT_TRUE(get(*a, 1) == get(*b, 1));
}

TEST_F(StateStoreFile, InUseItIsNotReplaced) {
  auto store = open();
  ASSERT_TRUE(put(*store, 0, random(3, 7)));
  const std::string before = read_file(path);
  const auto message = complaint(path, "other");
  ASSERT_TRUE(message.has_value());
  EXPECT_NE(message->find("another run uses it"), message->npos) << *message;
  EXPECT_NE(message->find("--state-store"), message->npos) << *message;
  EXPECT_TRUE(read_file(path) == before);
  const auto second = open();  // the refused one left no lock
  store.reset();
  EXPECT_TRUE(complaint(path, "other").has_value()) << "the second is still there";
  EXPECT_TRUE(has(*second, 0));
}

TEST_F(StateStoreFile, WhatIsCutShortOrDamagedIsMadeAgain) {
  const States s[] = {random(3, 9), random(1, 10), random(5, 11)};
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(put(*open(), i, s[i]));
  const std::string whole = read_file(path);
  const std::string kept = "forerun states 2\n";
  std::vector<std::string> contents;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, kept.size() - 1, kept.size(),
                              kept.size() + 2, std::size_t{4095}}) {
    contents.push_back(whole.substr(0, n));
  }
  for (std::size_t n = 4096; n < whole.size(); n += 7) {
    contents.push_back(whole.substr(0, n));
    contents.push_back(whole.substr(0, n) + std::string(whole.size() - n, '\0'));
    contents.push_back(whole);
    contents.back()[n] = static_cast<char>(contents.back()[n] ^ 0x10);
  }
  std::size_t gone = 0;
  for (const std::string& content : contents) {
    folder.write("states", content);
    const auto store = open();
    for (std::size_t i = 0; i < 3; ++i) {
      if (!has(*store, i)) {
        ++gone;
        continue;
      }
      EXPECT_LT((get(*store, i).features - s[i].features).abs().max().item<double>(), 0.05) << i;
    }
    ASSERT_TRUE(put(*store, 2, s[2]));  // and it can be used again
    EXPECT_LT((get(*store, 2).features - s[2].features).abs().max().item<double>(), 0.05);
  }
  EXPECT_GT(gone, contents.size() / 2);
  EXPECT_LT(gone, 3 * contents.size());
}

TEST_F(StateStoreFile, OfAnEarlierVersionItBeginsAnew) {
  const auto file = folder.write("states", "forerun states 1\nkey" + std::string(9000, '\1'));
  StateStore::expect_usable(file);
  const auto store = open();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(has(*store, i));
}

TEST_F(StateStoreFile, APathThatCannotBeOpenedIsNamed) {
  folder.write("file", "");
  for (const auto& bad :
       {folder.path() / "missing" / "states", folder.path(), folder.path() / "file" / "states"}) {
    const auto message = complaint(bad);
    ASSERT_TRUE(message.has_value()) << bad;
    EXPECT_NE(message->find("--state-store"), message->npos) << *message;
  }
  EXPECT_TRUE(complaint(path, std::string(5000, 'k')).has_value());
}

TEST_F(StateStoreFile, NeverOverwritesAFileOfAnotherKind) {
  for (const char* content : {"a model that took a day to train", "forerun states 3\n", "\n"}) {
    const auto file = folder.write("precious", content);
    const auto message = complaint(file);
    ASSERT_TRUE(message.has_value());
    EXPECT_NE(message->find("not overwritten"), message->npos) << *message;
    EXPECT_EQ(read_file(file), content);
  }
}

TEST_F(StateStoreFile, AFullDiskKeepsNothingOfTheDocument) {
  const auto store = open();
  ASSERT_TRUE(put(*store, 0, random(3, 12)));
  {
    const FileSizeLimit full(std::filesystem::file_size(path) + 100);
    EXPECT_FALSE(put(*store, 2, random(5, 13)));
    EXPECT_FALSE(has(*store, 2));
    EXPECT_TRUE(has(*store, 0));
  }
  EXPECT_TRUE(put(*store, 2, random(5, 13)));
  EXPECT_TRUE(has(*store, 2));
}

TEST_F(StateStoreFile, ADiskTooFullForItsHeaderIsSaid) {
  const FileSizeLimit full(1000);
  const auto message = complaint(path);
  ASSERT_TRUE(message.has_value());
  EXPECT_NE(message->find("cannot be written"), message->npos) << *message;
}

}  // namespace
}  // namespace forerun
