#include "forerun/formats/tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forerun/base/utf8.h"
#include "forerun/formats/tokenizer/tokenizer_json.h"
#include "tests/support/mutate.h"
#include "tests/support/tokenizer_values.h"

namespace forerun {
namespace {

using testing::SplitMix64;

Tokenizer trained(const std::string& name) {
  return *make_tokenizer(*parse_tokenizer_json(testing::tokenizer_file(name + ".json"), ""));
}

// Joins all bytes first, as a decoder that does not stream would.
std::string decoded_at_once(const Tokenizer& tokenizer, const std::vector<Token>& ids) {
  std::string bytes;
  for (const Token id : ids) {
    if (!tokenizer.is_control(id)) bytes += tokenizer.piece(id);
  }
  return replace_invalid_utf8(bytes);
}

TEST(StreamDecoder, AnyTokensGiveWholeCharactersAndTheTextOfDecode) {
  for (const char* name : {"gpt2", "llama3", "gemma", "llama2"}) {
    const Tokenizer tokenizer = trained(name);
    // Only the tokens of single bytes: these cut characters most often.
    std::vector<Token> cutting;
    for (std::size_t i = 0; i < tokenizer.vocab_size(); ++i) {
      const auto id = static_cast<Token>(i);
      if (tokenizer.piece(id).size() == 1 &&
          static_cast<unsigned char>(tokenizer.piece(id)[0]) >= 0x80) {
        cutting.push_back(id);
      }
    }
    ASSERT_GE(cutting.size(), 64U) << name;
    SplitMix64 rng{11};
    for (int round = 0; round < 3000; ++round) {
      std::vector<Token> ids;
      for (std::size_t n = rng.below(20); n > 0; --n) {
        ids.push_back(rng.below(3) == 0 ? static_cast<Token>(rng.below(tokenizer.vocab_size() + 2))
                                        : cutting[rng.below(cutting.size())]);
      }
      StreamDecoder decoder(tokenizer);
      std::string text;
      for (const Token id : ids) {
        const std::string part = decoder.push(id);
        ASSERT_TRUE(is_valid_utf8(part));
        text += part;
      }
      text += decoder.flush();
      ASSERT_EQ(text, decoded_at_once(tokenizer, ids)) << name << " round " << round;
      ASSERT_EQ(text, tokenizer.decode(ids));
    }
  }
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsComplete) {
  const Tokenizer tokenizer = trained("gpt2");
  const auto byte = [&](const char* name) { return *tokenizer.token(name); };
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(byte("\u00f0")), "");  // F0 9F 98 80 is U+1F600
  EXPECT_EQ(decoder.push(byte("\u0141")), "");
  EXPECT_EQ(decoder.push(byte("\u013a")), "");
  EXPECT_EQ(decoder.push(byte("\u0122")), "\U0001F600");
  EXPECT_EQ(decoder.push(byte("\u00f0")), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, DropsTheSpaceOfEncodingOnlyAtTheStartOfAText) {
  const Tokenizer tokenizer = trained("llama2");
  const std::vector<Token> ids = tokenizer.encode("the end");
  StreamDecoder from_start(tokenizer, {.start_of_text = true}), going_on(tokenizer);
  std::string start, rest;
  for (const Token id : ids) {
    start += from_start.push(id);
    rest += going_on.push(id);
  }
  EXPECT_EQ(start, "the end");
  EXPECT_EQ(rest, " the end");
}

TEST(StreamDecoder, ControlTokensShowOnlyOnRequest) {
  const Tokenizer tokenizer = trained("llama3");
  const std::vector<Token> ids = tokenizer.encode("a<|eot_id|>b", Special::kParse);
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_EQ(tokenizer.decode(ids, {.control = true}), "a<|eot_id|>b");
}

}  // namespace
}  // namespace forerun
