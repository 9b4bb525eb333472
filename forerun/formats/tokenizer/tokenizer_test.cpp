#include "forerun/formats/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "forerun/base/utf8.h"
#include "forerun/formats/tokenizer/internal/pre_tokenizers.h"
#include "forerun/formats/tokenizer/internal/splitter.h"
#include "forerun/formats/tokenizer/stream_decoder.h"
#include "forerun/formats/tokenizer/tokenizer_json.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "tests/support/mutate.h"
#include "tests/support/tokenizer_values.h"

namespace forerun {
namespace {

using testing::expect_ids;
using testing::hostile_texts;
using testing::SplitMix64;
using testing::tokenizer_file;
using testing::tokenizer_values;
using testing::with_prompts;

Tokenizer trained_tokenizer(const std::string& name) {
  Result<TokenizerSpec> spec = parse_tokenizer_json(tokenizer_file(name + ".json"), "");
  if (!spec) throw std::runtime_error(spec.error().message);
  Result<Tokenizer> tokenizer = make_tokenizer(*std::move(spec));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

Tokenizer sentencepiece(const std::string& name) {
  const nlohmann::json values = tokenizer_values(name + ".json");
  TokenizerSpec spec;
  spec.kind = TokenizerSpec::Kind::kSentencePiece;
  spec.tokens = values["tokens"].get<std::vector<std::string>>();
  spec.scores = values["scores"].get<std::vector<float>>();
  for (const int type : values["types"]) spec.types.push_back(static_cast<TokenType>(type));
  spec.add_space_prefix = spec.strip_space = values["add_space_prefix"];
  spec.byte_fallback = values["byte_fallback"];
  spec.bos = values["bos"].get<Token>();
  spec.eos = values["eos"].get<Token>();
  spec.unknown = values["unk"].get<Token>();
  spec.added = added_by_type(spec);
  return *make_tokenizer(std::move(spec));
}

std::string random_text(SplitMix64& rng) {
  std::string out;
  for (std::size_t n = rng.below(40); n > 0; --n) {
    const std::size_t limits[] = {0x80, 0x800, 0xD800, 0x110000};
    std::size_t code = rng.below(limits[rng.below(4)]);
    if (code >= 0xD800 && code < 0xE000) code = 0x1F600;
    out += to_utf8(static_cast<char32_t>(code));
  }
  return out;
}

class TrainedTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedTokenizer, GivesTheIdsOfHuggingFaceOnHostileTexts) {
  const Tokenizer tokenizer = trained_tokenizer(GetParam());
  const nlohmann::json ids = tokenizer_values(std::string(GetParam()) + ".ids.json");
  const std::vector<std::string> texts = with_prompts(hostile_texts());
  EXPECT_EQ(expect_ids(tokenizer, texts, ids["parse"], Special::kParse), 260U);
  EXPECT_EQ(expect_ids(tokenizer, texts, ids["text"], Special::kText), 260U);
}

TEST_P(TrainedTokenizer, DecodesToTheTextOfHuggingFace) {
  const Tokenizer tokenizer = trained_tokenizer(GetParam());
  const nlohmann::json decoded = tokenizer_values(std::string(GetParam()) + ".ids.json")["decoded"];
  const std::vector<std::string> texts = with_prompts(hostile_texts());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > 1000) continue;  // not in the values
    // Hugging Face takes an added token's U+00E9 for a character of GPT-2's alphabet, and so for a
    // byte.
    if (texts[i].find("<tool> caf") != std::string::npos) continue;
    const auto other = decoded.find(std::to_string(i));
    const std::string want =
        other == decoded.end() ? replace_invalid_utf8(texts[i]) : other->get<std::string>();
    const std::vector<Token> ids = tokenizer.encode(texts[i]);
    EXPECT_EQ(tokenizer.decode(ids, {.control = true, .start_of_text = true}), want)
        << "text " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TrainedTokenizer,
                         ::testing::Values("gpt2", "prefix", "llama3", "qwen2", "gemma", "llama2",
                                           "metaspace"),
                         [](const auto& family) { return std::string(family.param); });

class SentencePiece : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePiece, GivesTheIdsAndTextsOfTheLibrary) {
  const Tokenizer tokenizer = sentencepiece(GetParam());
  const nlohmann::json values = tokenizer_values(std::string(GetParam()) + ".json");
  const std::vector<std::string> texts = with_prompts(hostile_texts());
  EXPECT_EQ(expect_ids(tokenizer, texts, values["text"], Special::kText), 260U);
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePiece,
                         ::testing::Values("sentencepiece", "sentencepiece_plain"),
                         [](const auto& family) { return std::string(family.param); });

TEST(Tokenizer, NamesOfGgufGiveTheSameIdsAsTokenizerJson) {
  const std::pair<const char*, const char*> names[] = {
      {"gpt2", "gpt-2"}, {"llama3", "llama-bpe"}, {"qwen2", "qwen2"}};
  for (const auto& [name, pre] : names) {
    TokenizerSpec spec = *parse_tokenizer_json(tokenizer_file(std::string(name) + ".json"), "");
    spec.normalize.clear();
    spec.split.clear();
    spec.ignore_merges = false;
    spec.pre = pre;
    const Tokenizer tokenizer = *make_tokenizer(std::move(spec));
    const nlohmann::json ids = tokenizer_values(std::string(name) + ".ids.json");
    EXPECT_EQ(expect_ids(tokenizer, with_prompts(hostile_texts()), ids["text"], Special::kText),
              260U);
  }
}

// The words by every name's patterns, as Hugging Face's library cuts by the same ones.
TEST(Tokenizer, NamesOfGgufCutTextsAsTheReference) {
  const std::vector<std::string> texts = hostile_texts();
  const nlohmann::json values = tokenizer_values("words.json");
  EXPECT_EQ(values.size(), 8U);
  for (const auto& [name, expected] : values.items()) {
    const auto pre = internal::pre_tokenizer(name);
    ASSERT_TRUE(pre) << pre.error().message;
    const auto splitter = internal::Splitter::make(pre->split);
    ASSERT_TRUE(splitter) << splitter.error().message;
    ASSERT_EQ(texts.size(), expected.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::vector<Token> got;
      for (const std::string& word : splitter->words(replace_invalid_utf8(texts[i]), true)) {
        got.push_back(static_cast<Token>(word.size()));
      }
      EXPECT_EQ(got, testing::unpacked(expected[i])) << name << ", text " << i;
    }
  }
}

// Letters with vowel signs, and marks that no letter composes with.
TEST(Tokenizer, Qwen35KeepsMarksWithTheirWords) {
  const auto words_of = [](const char* name, const std::string& text) {
    const auto pre = *internal::pre_tokenizer(name);
    return internal::Splitter::make(pre.split)->words(text, true);
  };
  const std::string hindi = "\u0928\u092e\u0938\u094d\u0924\u0947";
  EXPECT_EQ(words_of("qwen35", hindi + " a12").size(), 4U);
  EXPECT_GT(words_of("qwen2", hindi + " a12").size(), 4U);
  EXPECT_EQ(words_of("qwen35", "a\u0301 \u0301!").size(), 3U);
  EXPECT_FALSE(internal::begins_with_bos("qwen35"));
  const auto pre = *internal::pre_tokenizer("qwen35");
  EXPECT_EQ(pre.normalize.size(), 1U);
  EXPECT_FALSE(pre.ignore_merges);
}

TEST(Tokenizer, TagsOfReasoningAndCallsHaveATextThoughTheyAreSpecial) {
  TokenizerSpec spec;
  spec.tokens = {"a",         "<think>",   "</think>",   "<tool_call>", "</tool_call>",
                 "<|other|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
  spec.types.assign(spec.tokens.size(), TokenType::kControl);
  spec.types[0] = TokenType::kNormal;
  spec.split = {ByteLevel{.use_regex = false}};
  spec.added = added_by_type(spec);
  const std::vector<Token> all = {1, 0, 2, 3, 0, 5, 4};
  const Tokenizer tokenizer = *make_tokenizer(spec);
  EXPECT_EQ(tokenizer.decode(all), "<think>a</think><tool_call>a</tool_call>");
  EXPECT_TRUE(tokenizer.is_control(5));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{6, 7, 8, 9}),
            "<arg_key></arg_key><arg_value></arg_value>");
  EXPECT_EQ(tokenizer.encode("<think>a", Special::kParse), (std::vector<Token>{1, 0}));
  spec.eos = 4;  // an end of the answer is none of its text
  EXPECT_EQ(make_tokenizer(spec)->decode(all), "<think>a</think><tool_call>a");
}

// An answer of several messages: their headers have a text, and only the last one's end ends it.
TEST(Tokenizer, HeadersOfHarmonyHaveATextAndItsCallsEndIt) {
  TokenizerSpec spec;
  spec.tokens = {"a",          "<|start|>", "<|channel|>",   "<|message|>", "<|end|>",
                 "<|return|>", "<|call|>",  "<|constrain|>", "<|reserved|>"};
  spec.types.assign(spec.tokens.size(), TokenType::kControl);
  spec.types[0] = TokenType::kNormal;
  spec.split = {ByteLevel{.use_regex = false}};
  spec.added = added_by_type(spec);
  spec.end = {4, 5};  // as some files have it
  const std::vector<Token> all = {2, 0, 7, 3, 0, 4, 1, 8, 5, 6};
  const Tokenizer tokenizer = *make_tokenizer(spec);
  EXPECT_EQ(tokenizer.decode(all), "<|channel|>a<|constrain|><|message|>a<|end|><|start|>");
  EXPECT_EQ(std::vector<Token>(tokenizer.end_tokens().begin(), tokenizer.end_tokens().end()),
            (std::vector<Token>{5, 6}));
  spec.tokens[2] = "<|canal|>";  // no harmony: Phi-3 ends its answers with <|end|>
  EXPECT_EQ(make_tokenizer(spec)->decode(all), "aa");
  EXPECT_EQ(make_tokenizer(spec)->end_tokens().size(), 2U);
  spec.end = {5};  // its GGUF files do not name it
  EXPECT_EQ(make_tokenizer(spec)->end_tokens().size(), 2U);
}

TEST(Tokenizer, NamesOfGgufOfOneFamilyMeanTheSame) {
  const auto patterns = [](const char* name) {
    const auto pre = *internal::pre_tokenizer(name);
    std::string out = pre.ignore_merges ? "whole words" : "merges";
    for (const SplitStep& step : pre.split) {
      const auto* split = std::get_if<Split>(&step);
      out += split == nullptr ? fmt::format("|{}", step.index()) : split->pattern;
    }
    return out;
  };
  for (const char* name : {"falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}) {
    EXPECT_EQ(patterns(name), patterns("llama-bpe"));
    EXPECT_TRUE(internal::begins_with_bos(name));
  }
  for (const char* name : {"smaug-bpe", "glm4", "chatglm-bpe"}) {
    EXPECT_EQ(patterns(name), patterns("dbrx"));
  }
  EXPECT_NE(patterns("dbrx"), patterns("llama-bpe"));  // those take whole words
  EXPECT_EQ(patterns("olmo"), patterns("gpt-2"));
  EXPECT_EQ(patterns("refact"), patterns("starcoder"));
  EXPECT_EQ(patterns("refact"), patterns("smollm"));
  EXPECT_TRUE(internal::begins_with_bos("tekken"));
  EXPECT_FALSE(internal::begins_with_bos("dbrx"));
  EXPECT_FALSE(internal::begins_with_bos("nobody"));
  const auto unknown = internal::pre_tokenizer("nobody");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("deepseek-coder"), std::string::npos);
}

TEST(Tokenizer, SentencePieceDecodesToTheTextOfTheLibrary) {
  const Tokenizer tokenizer = sentencepiece("sentencepiece");
  const nlohmann::json decoded = tokenizer_values("sentencepiece.json")["decoded"];
  const std::vector<std::string> texts = with_prompts(hostile_texts());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > 1000) continue;  // not in the values
    const auto other = decoded.find(std::to_string(i));
    const std::string want =
        other == decoded.end() ? replace_invalid_utf8(texts[i]) : other->get<std::string>();
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(texts[i]), {.start_of_text = true}), want)
        << "text " << i;
  }
}

TEST(Tokenizer, SentencePieceFindsControlTokensOnlyOnRequest) {
  const Tokenizer tokenizer = sentencepiece("sentencepiece");
  const Token turn = *tokenizer.token("<start_of_turn>");
  const std::vector<Token> parsed = tokenizer.encode("<start_of_turn>a", Special::kParse);
  ASSERT_FALSE(parsed.empty());
  EXPECT_EQ(parsed.front(), turn);
  EXPECT_EQ(std::vector<Token>(parsed.begin() + 1, parsed.end()), tokenizer.encode("a"));
  for (const Token token : tokenizer.encode("<start_of_turn>a")) EXPECT_NE(token, turn);
}

TEST(Tokenizer, DecodingInvertsEncodingForByteLevelTokenizers) {
  for (const char* name : {"gpt2", "llama3"}) {
    const Tokenizer tokenizer = trained_tokenizer(name);
    SplitMix64 rng{7};
    for (int i = 0; i < 2000; ++i) {
      const std::string text = random_text(rng);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text), {.control = true}), text)
          << name << " " << i;
    }
  }
}

TEST(Tokenizer, InvalidUtf8EncodesAsItsReplacement) {
  const Tokenizer tokenizer = trained_tokenizer("gpt2");
  EXPECT_EQ(tokenizer.encode("a\xE2\x82z\xFF"), tokenizer.encode("a\uFFFDz\uFFFD"));
}

TEST(Tokenizer, LongRunsTakeNearlyLinearTime) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "gemma", "llama2"}) {
    const Tokenizer tokenizer = trained_tokenizer(name);
    for (const std::string& text :
         {std::string(1 << 20, ' '), std::string(1 << 20, ' ') + "x", std::string(100'000, 'a'),
          std::string(1 << 20, '\n'), std::string(200'000, '7')}) {
      const auto start = std::chrono::steady_clock::now();
      const std::vector<Token> ids = tokenizer.encode(text);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_EQ(tokenizer.decode(ids, {.start_of_text = true}), text) << name;
      EXPECT_LT(took.count(), 20.0) << name;  // quadratic time would be hours; sanitizers are slow
    }
  }
}

TEST(Tokenizer, EncodePromptAddsBosOnce) {
  const Tokenizer tokenizer = trained_tokenizer("llama3");
  const Token bos = *tokenizer.bos();
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.encode_prompt("").size(), 1U);
  const std::vector<Token> once = tokenizer.encode_prompt("hi", Special::kParse);
  EXPECT_EQ(once.front(), bos);
  EXPECT_EQ(tokenizer.encode_prompt("<|begin_of_text|>hi", Special::kParse), once);
  EXPECT_FALSE(trained_tokenizer("gpt2").add_bos());
}

TEST(Tokenizer, EndTokensAreTheWellKnownControlTokens) {
  const Tokenizer tokenizer = trained_tokenizer("llama3");
  EXPECT_EQ(tokenizer.end_tokens().size(), 2U);
  EXPECT_TRUE(tokenizer.is_end(*tokenizer.token("<|eot_id|>")));
  EXPECT_TRUE(tokenizer.is_end(*tokenizer.token("<|end_of_text|>")));
  EXPECT_FALSE(tokenizer.is_end(*tokenizer.token("<|start_header_id|>")));
  EXPECT_FALSE(tokenizer.is_end(-1));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreEmpty) {
  const Tokenizer tokenizer = trained_tokenizer("gpt2");
  const std::vector<Token> ids = {-1, 1 << 30, static_cast<Token>(tokenizer.vocab_size())};
  EXPECT_EQ(tokenizer.decode(ids), "");
  EXPECT_FALSE(tokenizer.is_control(-1));
  EXPECT_EQ(tokenizer.name(-5), "");
}

TEST(Tokenizer, CopiesServeManyThreads) {
  const Tokenizer tokenizer = trained_tokenizer("qwen2");
  const std::vector<std::string> texts = with_prompts({});
  std::vector<std::vector<Token>> want;
  for (const std::string& text : texts) want.push_back(tokenizer.encode(text));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&count, &texts, &want, copy = tokenizer] {
      for (std::size_t i = 0; i < texts.size(); ++i) count += copy.encode(texts[i]) != want[i];
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, UnsupportedPartsAreNamed) {
  TokenizerSpec spec{.tokens = {"a"}, .types = {TokenType::kNormal}, .pre = "viking"};
  const Result<Tokenizer> unknown_pre = make_tokenizer(spec);
  ASSERT_FALSE(unknown_pre);
  EXPECT_NE(unknown_pre.error().message.find("'viking' is not supported; supported are gpt-2"),
            std::string::npos);
  spec.pre.clear();
  spec.split = {Split{.pattern = R"(\bword)"}};
  const Result<Tokenizer> unknown_regex = make_tokenizer(spec);
  ASSERT_FALSE(unknown_regex);
  EXPECT_NE(unknown_regex.error().message.find(R"('\b', which is not supported)"),
            std::string::npos);
  spec.split.clear();
  spec.merges = {{"a", "b"}};
  EXPECT_FALSE(make_tokenizer(spec));
  spec.merges.clear();
  spec.bos = 1;
  EXPECT_FALSE(make_tokenizer(spec));
  spec.bos = 0;
  EXPECT_TRUE(make_tokenizer(spec));
}

TEST(Tokenizer, NormalizersThatGrowTheirTextAreRefused) {
  TokenizerSpec spec{.tokens = {"a"}, .types = {TokenType::kNormal}};
  spec.normalize.assign(32, Replace{"a", "aa"});
  const Result<Tokenizer> doubling = make_tokenizer(spec);
  ASSERT_TRUE(doubling);
  EXPECT_THROW(doubling->encode(std::string(1000, 'a')), FormatError);
  spec.added = {{.id = 0, .normalized = true}};
  EXPECT_FALSE(make_tokenizer(spec));  // the added token's own text grows
  spec.added.clear();
  spec.normalize.assign(33, Replace{"a", "a"});
  EXPECT_FALSE(make_tokenizer(spec));
  spec.normalize = {Replace{std::string(1025, 'a'), "a"}};
  EXPECT_FALSE(make_tokenizer(spec));
}

TEST(Vocabulary, DifferenceQuotesTheFirstIds) {
  const Tokenizer gpt2 = trained_tokenizer("gpt2"), llama3 = trained_tokenizer("llama3");
  EXPECT_FALSE(vocabulary_difference(gpt2, trained_tokenizer("gpt2")));
  const std::optional<std::string> text = vocabulary_difference(gpt2, llama3, 1);
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->starts_with(fmt::format("vocabularies differ: {} and {} entries; ",
                                            gpt2.vocab_size(), llama3.vocab_size())))
      << *text;
  EXPECT_NE(text->find("id 0 '<|endoftext|>' / '<|begin_of_text|>', ..."), std::string::npos)
      << *text;
}

}  // namespace
}  // namespace forerun
