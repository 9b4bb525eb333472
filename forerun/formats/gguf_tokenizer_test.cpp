#include "forerun/formats/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/gguf_builder.h"

namespace forerun {
namespace {

const std::vector<std::string_view> kTokens{"<s>", "a", "b", "ab"};
const std::vector<std::string_view> kMerges{"a b"};

Result<TokenizerSpec> spec_of(const testing::GgufBuilder& file) {
  const std::string bytes = file.bytes();
  const Result<Gguf> gguf = parse_gguf(std::as_bytes(std::span(bytes)));
  return gguf ? tokenizer_spec(*gguf) : Result<TokenizerSpec>(gguf.error());
}

testing::GgufBuilder with_end(const std::string& name, std::uint32_t id) {
  testing::GgufBuilder b;
  b.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", kTokens);
  b.strings("tokenizer.ggml.merges", kMerges).u32("tokenizer.ggml." + name, id);
  return b;
}

TEST(GgufTokenizer, EndTokensOutsideTheVocabularyAreNamed) {
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const Result<TokenizerSpec> good = spec_of(with_end(name, 3));
    ASSERT_TRUE(good) << good.error().message;
    EXPECT_EQ(good->end, std::vector<Token>{3});
    const Result<TokenizerSpec> none = spec_of(with_end(name, 4294967295U));
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_TRUE(none->end.empty());
    EXPECT_FALSE(none->eos.has_value());
    for (const std::uint32_t id : {4u, 4294967294u}) {
      const Result<TokenizerSpec> bad = spec_of(with_end(name, id));
      ASSERT_FALSE(bad) << name << " " << id;
      EXPECT_EQ(bad.error().message,
                "tokenizer.ggml." + std::string(name) + " is " + std::to_string(id) +
                    ", but the vocabulary has ids 0 to 3: convert the model again");
    }
  }
}

// The marks of its chats take white space behind them along, in its own tokenizer alone.
TEST(GgufTokenizer, MarksOfPhi3TakeTheSpaceBehindThem) {
  const std::vector<std::string_view> tokens{"<unk>", "<s>", "<|endoftext|>", "<|user|>",
                                             "<|end|>"};
  for (const std::string architecture : {"phi3", "llama"}) {
    testing::GgufBuilder b;
    b.string("general.architecture", architecture).string("tokenizer.ggml.model", "llama");
    b.strings("tokenizer.ggml.tokens", tokens);
    const std::string types = std::string("\5\0\0\0\5\0\0\0\0\0\0\0", 12);
    std::string scores(20, '\0'), kinds;
    for (int i = 0; i < 5; ++i) kinds += std::string("\3\0\0\0", 4);
    b.entry("tokenizer.ggml.token_type", 9, types + kinds);
    b.entry("tokenizer.ggml.scores", 9, std::string("\6\0\0\0\5\0\0\0\0\0\0\0", 12) + scores);
    const Result<TokenizerSpec> spec = spec_of(b);
    ASSERT_TRUE(spec) << spec.error().message;
    ASSERT_EQ(spec->added.size(), 5U);
    for (const AddedToken& a : spec->added) {
      EXPECT_EQ(a.rstrip, architecture == "phi3" && a.id >= 3) << a.id;
    }
  }
}

// What is missing has a default; what is of another type is no default.
TEST(GgufTokenizer, FieldsOfAnotherTypeAreNamed) {
  for (const char* name : {"pre", "add_bos_token", "add_eos_token", "bos_token_id",
                           "unknown_token_id", "padding_token_id"}) {
    testing::GgufBuilder b = with_end("eos_token_id", 3);
    const std::string key = std::string("tokenizer.ggml.") + name;
    if (key.ends_with("pre")) {
      b.u32(key, 1);
    } else {
      b.string(key, "yes");
    }
    const Result<TokenizerSpec> bad = spec_of(b);
    ASSERT_FALSE(bad) << name;
    EXPECT_NE(bad.error().message.find(key), std::string::npos) << bad.error().message;
  }
  const Result<TokenizerSpec> none = spec_of(with_end("bos_token_id", 4294967295U));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->bos.has_value());
}

}  // namespace
}  // namespace forerun
