#include "forerun/formats/token_shards.h"

#include <gtest/gtest.h>

#include <functional>

#include "forerun/formats/safetensors_write.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::Bytes;
using testing::read_file;
using testing::TempFolder;

bool same(const TokenDocument& a, const TokenDocument& b) {
  return a.id == b.id && a.prompt == b.prompt && a.tokens == b.tokens;
}

std::vector<TokenDocument> documents_of(const TokenShards& shards) {
  std::vector<TokenDocument> out;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto tokens = shards.tokens(i);
    out.push_back({shards.id(i), shards.prompt(i), {tokens.begin(), tokens.end()}});
  }
  return out;
}

void expect_equal(const std::vector<TokenDocument>& a, const std::vector<TokenDocument>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same(a[i], b[i])) << i;
}

// A prompt without an answer, an answer without a prompt, nothing at all, ids out of order.
const std::vector<TokenDocument> kDocuments = {{.id = 7, .prompt = 2, .tokens = {5, 6, 7}},
                                               {.id = -1, .prompt = 3, .tokens = {1, 2, 3}},
                                               {.id = 1, .prompt = 0, .tokens = {}},
                                               {.id = 0, .prompt = 0, .tokens = {2147483647, -9}}};

TEST(TokenShards, ComeBackAsTheyWere) {
  const TempFolder folder;
  write_token_shard(folder.path() / "a.safetensors", kDocuments, {{"made", "by a test"}});
  const TokenShards shards = TokenShards::load(folder.path());
  expect_equal(documents_of(shards), kDocuments);
  EXPECT_EQ(shards.metadata().at("made"), "by a test");
  EXPECT_EQ(shards.shards(), 1U);
}

TEST(TokenShards, OfAFolderFollowEachOtherByName) {
  const TempFolder folder;
  std::vector<TokenDocument> all;
  for (const char* name : {"b", "c", "a", "d"}) {  // not in the order in which they are written
    const TokenDocument own{.id = name[0], .prompt = 1, .tokens = {name[0], name[0] + 1}};
    write_token_shard(folder.path() / (std::string(name) + ".safetensors"), {{own, kDocuments[0]}},
                      {{"name", name}});
  }
  for (const Token t : {'a', 'b', 'c', 'd'}) {
    all.push_back({.id = t, .prompt = 1, .tokens = {t, t + 1}});
    all.push_back(kDocuments[0]);
  }
  folder.write("distill.json", "{}");  // no shard
  folder.write("e.safetensors.tmp-1-0", "half");
  TokenShards shards = TokenShards::load(folder.path());
  const TokenShards moved = std::move(shards);  // what is read stays mapped
  expect_equal(documents_of(moved), all);
  EXPECT_EQ(moved.shards(), 4U);
  EXPECT_EQ(moved.metadata().at("name"), "a");
}

TEST(TokenShards, AFolderWithoutShardsHasNoDocuments) {
  const TempFolder folder;
  const TokenShards shards = TokenShards::load(folder.path());
  EXPECT_EQ(shards.size(), 0U);
  EXPECT_EQ(shards.shards(), 0U);
  EXPECT_TRUE(shards.metadata().empty());
  write_token_shard(folder.path() / "none.safetensors", {});
  EXPECT_EQ(TokenShards::load(folder.path()).size(), 0U);
}

TEST(TokenShards, AFolderThatCannotBeReadIsNamed) {
  const TempFolder folder;
  const auto file = folder.write("file", "text");
  for (const auto& path : {folder.path() / "missing", file}) {
    try {
      TokenShards::load(path);
      FAIL() << path;
    } catch (const FormatError& e) {
      EXPECT_EQ(std::string(e.what()).rfind(path.string() + ": cannot be read", 0), 0U) << e.what();
    }
  }
}

TEST(TokenShards, APromptBeyondItsDocumentIsNeverWritten) {
  const TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  for (const std::int64_t prompt : {-1, 4}) {
    const TokenDocument bad{.id = 0, .prompt = prompt, .tokens = {1, 2, 3}};
    EXPECT_THROW(write_token_shard(path, {{bad}}), std::invalid_argument);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A shard as someone else might write it.
struct Written {
  std::vector<Token> tokens = {1, 2, 3, 4, 5};
  std::vector<std::int64_t> ends = {2, 5}, prompts = {1, 3}, ids = {0, 1};
  DType type = DType::kI64;  // of ends
  bool with_ids = true;

  void to(const std::filesystem::path& path) const {
    const auto view = [](const char* name, DType t, const auto& values) {
      return TensorView{
          name,
          t,
          {static_cast<std::int64_t>(values.size() * sizeof(values[0])) / *byte_size(t, 1)},
          std::as_bytes(std::span(values))};
    };
    std::vector<TensorView> views = {view("tokens", DType::kI32, tokens), view("ends", type, ends),
                                     view("prompts", DType::kI64, prompts)};
    if (with_ids) views.push_back(view("ids", DType::kI64, ids));
    write_safetensors(path, views);
  }
};

TEST(TokenShards, NumbersThatDoNotFitAreRefusedNamingTheFile) {
  const TempFolder folder;
  const auto path = folder.path() / "shard.safetensors";
  const auto refused = [&](const std::function<void(Written&)>& change, const char* says) {
    Written w;
    change(w);
    w.to(path);
    try {
      TokenShards::load(folder.path());
      ADD_FAILURE() << "accepted: " << says;
    } catch (const FormatError& e) {
      const std::string line = e.what();
      EXPECT_EQ(line.rfind(path.string() + ": ", 0), 0U) << line;
      EXPECT_NE(line.find(says), line.npos) << line;
    }
  };
  const char* kDocument0 = "document 0 does not fit";
  const char* kDocument1 = "document 1 does not fit";
  constexpr std::int64_t kLeast = INT64_MIN, kMost = INT64_MAX;
  refused([](Written& w) { w.ends = {-1, 5}; }, kDocument0);
  refused([](Written& w) { w.ends = {kLeast, 5}; }, kDocument0);
  refused([](Written& w) { w.ends = {2, kLeast}; }, kDocument1);
  refused([](Written& w) { w.ends = {2, 1}; }, kDocument1);
  refused([](Written& w) { w.ends = {2, 6}; }, kDocument1);
  refused([](Written& w) { w.ends = {kMost, kMost}; }, kDocument0);
  refused([](Written& w) { w.prompts = {3, 3}; }, kDocument0);
  refused([](Written& w) { w.prompts = {1, 4}; }, kDocument1);
  refused([](Written& w) { w.prompts = {-1, 3}; }, kDocument0);
  refused([](Written& w) { w.prompts = {1, kLeast}; }, kDocument1);
  refused([](Written& w) { w.prompts = {1}; }, "differ in length");
  refused([](Written& w) { w.ids = {0, 1, 2}; }, "differ in length");
  refused([](Written& w) { w.ends = {5}; }, "differ in length");
  refused([](Written& w) { w.type = DType::kI32; }, "no tensor 'ends'");
  refused([](Written& w) { w.with_ids = false; }, "no tensor 'ids'");
  Written().to(path);  // and nothing else is wrong with it
  EXPECT_EQ(TokenShards::load(folder.path()).size(), 2U);
}

TEST(TokenShards, AFileOfWeightsIsNoShard) {
  const TempFolder folder;
  std::filesystem::copy_file(FORERUN_SOURCE_DIR "/tests/data/formats/plain.safetensors",
                             folder.path() / "plain.safetensors");
  EXPECT_THROW(TokenShards::load(folder.path()), FormatError);
}

// ---- damaged files: refused with a line, or read without harm ----

class DamagedTokenShard : public ::testing::Test {
 protected:
  DamagedTokenShard() {
    write_token_shard(path, kDocuments, {{"format", "forerun token shard 1"}});
    good = read_file(path);
  }

  // True if it could be read; whatever is read lies inside the file.
  bool reads(std::string_view content) {
    folder.write("shard.safetensors", content);
    try {
      const TokenShards shards = TokenShards::load(folder.path());
      std::size_t tokens = 0;
      for (const TokenDocument& d : documents_of(shards)) {
        EXPECT_LE(d.prompt, static_cast<std::int64_t>(d.tokens.size()));
        EXPECT_GE(d.prompt, 0);
        tokens += d.tokens.size();
      }
      EXPECT_LE(tokens * sizeof(Token), content.size());
      return true;
    } catch (const FormatError& e) {
      const std::string line = e.what();
      EXPECT_NE(line.find("shard.safetensors: "), line.npos) << line;
      EXPECT_EQ(line.find('\n'), line.npos) << line;
      return false;
    }
  }

  TempFolder folder;
  std::filesystem::path path = folder.path() / "shard.safetensors";
  std::string good;
};

TEST_F(DamagedTokenShard, EveryFileCutShortIsRefused) {
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(reads(good.substr(0, n))) << n;
  EXPECT_FALSE(reads(good + "x"));
  EXPECT_TRUE(reads(good));
}

TEST_F(DamagedTokenShard, EveryChangedByteIsHarmless) {
  std::size_t read = 0, refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const unsigned char flip : {0x01, 0x20, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ flip);
      ++(reads(bad) ? read : refused);
    }
  }
  EXPECT_GT(read, 10U);  // of tokens and ids, of which any value is as good as another
  EXPECT_GT(refused, good.size());
}

TEST_F(DamagedTokenShard, MutantsAreHarmless) {
  testing::SplitMix64 rng{42};
  for (int i = 0; i < 1500; ++i) {
    const Bytes bad = testing::mutate(testing::bytes_of(good), rng);
    reads(testing::text_of(bad));
  }
}

}  // namespace
}  // namespace forerun
