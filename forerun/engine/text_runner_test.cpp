// What an engine tells drafters of texts that end with it, and when it reads prompts.
#include "forerun/engine/text_runner.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <unordered_set>
#include <vector>

#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

// Drafts nothing, reads hidden states, and knows a text until it is told to forget it.
class Remembers final : public TextDrafter {
 public:
  explicit Remembers(std::int64_t width) : width_(width) {}
  std::span<const std::int64_t> features() const override { return blocks_; }
  std::int64_t state_width() const override { return width_; }
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences, std::size_t) override {
    for (const TokenSequence* sequence : sequences) known.insert(sequence->id());
    return std::vector<TokenDraft>(sequences.size());
  }
  void observe(const TextRound&) override {}
  void forget(SequenceId id) override { known.erase(id); }

  std::set<SequenceId> known;

 private:
  std::array<std::int64_t, 1> blocks_ = {0};
  std::int64_t width_;
};

// Ids come again in the next engine that a drafter serves.
TEST(TextRunner, NothingIsKnownOfTextsWhenItEnds) {
  const Gguf gguf = load_gguf(kTiny + "llama_plain/model.gguf");
  const DecoderLm lm = load_decoder(gguf, Precision::kF32);
  Result<Tokenizer> tokenizer = make_tokenizer(*tokenizer_spec(gguf));
  ASSERT_TRUE(tokenizer);
  const std::unordered_set<Token> none;
  const auto drafter = std::make_shared<Remembers>(lm.config.hidden);
  {
    const c10::InferenceMode no_autograd;
    TextRunner runner({lm, *tokenizer, none}, {.max_prefixes = 4});
    const auto submit = [&](RequestId id, std::size_t max_tokens) {
      TextRequest request{.prompt = {1, 2, 3, static_cast<Token>(4 + id)}};
      request.max_tokens = max_tokens;
      request.ignore_end = true;
      request.drafter = drafter;
      runner.submit(id, std::move(request));
    };
    submit(1, 2);
    submit(2, 50);
    std::vector<Event> events;
    for (int i = 0; i < 10; ++i) runner.step(events);
    ASSERT_TRUE(runner.busy());                               // the second
    EXPECT_EQ(drafter->known, (std::set<SequenceId>{1, 2}));  // the first as a prefix
  }
  EXPECT_TRUE(drafter->known.empty());
}

// Piece by piece, in rounds of the texts that run.
TEST(TextRunner, ALongPromptIsReadWhileOtherTextsRun) {
  const Gguf gguf = load_gguf(kTiny + "llama_plain/model.gguf");
  const DecoderLm lm = load_decoder(gguf, Precision::kF32);
  const Result<Tokenizer> tokenizer = make_tokenizer(*tokenizer_spec(gguf));
  ASSERT_TRUE(tokenizer);
  const std::unordered_set<Token> none;
  const c10::InferenceMode no_autograd;
  TextRunner runner({lm, *tokenizer, none}, {});
  const auto submit = [&](RequestId id, std::size_t prompt, std::size_t max_tokens) {
    TextRequest request{.prompt = std::vector<Token>(prompt, 7)};
    request.max_tokens = max_tokens;
    request.ignore_end = true;
    runner.submit(id, std::move(request));
  };
  std::vector<Event> events;
  submit(1, 4, 60);
  runner.step(events);
  submit(2, 40, 2);
  std::vector<RequestId> ended;
  while (runner.busy()) runner.step(events);
  for (const Event& event : events) {
    if (const auto* done = std::get_if<TextFinished>(&event)) ended.push_back(done->id);
  }
  EXPECT_EQ(ended, (std::vector<RequestId>{2, 1}));
}

// Of the end token too, which has none.
TEST(TextRunner, ReportsTheBytesOfEveryOutput) {
  const Gguf gguf = load_gguf(kTiny + "llama_plain/model.gguf");
  const DecoderLm lm = load_decoder(gguf, Precision::kF32);
  const Result<Tokenizer> tokenizer = make_tokenizer(*tokenizer_spec(gguf));
  ASSERT_TRUE(tokenizer);
  const c10::InferenceMode no_autograd;
  std::unordered_set<Token> end_tokens;
  for (const std::size_t outputs : {20U, 7U}) {
    TextRunner runner({lm, *tokenizer, end_tokens}, {});
    TextRequest request{.prompt = {1, 2, 3}, .seed = 4};
    request.settings.sampling.temperature = 1.0;
    request.max_tokens = 20;
    request.report_rounds = true;
    runner.submit(1, std::move(request));
    std::vector<Event> events;
    while (runner.busy()) runner.step(events);
    std::size_t bytes = 0, reported = 0;
    TextResult result;
    for (const Event& event : events) {
      if (const auto* round = std::get_if<RoundReport>(&event)) {
        EXPECT_EQ(round->bytes.size(), round->trace.outputs.size());
        reported += round->bytes.size();
        for (const std::size_t n : round->bytes) bytes += n;
      }
      if (const auto* done = std::get_if<TextFinished>(&event)) result = done->result;
    }
    EXPECT_EQ(result.tokens.size(), outputs);
    EXPECT_EQ(reported, outputs);
    EXPECT_LE(bytes, result.text.size());  // the rest is held back until the end
    end_tokens = {result.tokens.at(6)};    // ends the next
  }
}

// Drafts two tokens that are never right.
class AlwaysWrong final : public TextDrafter {
 public:
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences, std::size_t) override {
    return std::vector<TokenDraft>(sequences.size(), {.tokens = {159, 158}});
  }
  void observe(const TextRound& round) override {
    for (const Outcome& o : round.outcomes) rejected += o.drafted - o.accepted;
  }
  void forget(SequenceId) override {}

  std::size_t rejected = 0;
};

// Keys and values of rejected drafts are none of a text that begins as an ended one.
TEST(TextRunner, NothingThatWasRejectedIsShared) {
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  const Gguf gguf = load_gguf(kTiny + "llama_plain/model.gguf");
  const DecoderLm lm = load_decoder(gguf, Precision::kInt8);
  const Result<Tokenizer> tokenizer = make_tokenizer(*tokenizer_spec(gguf));
  ASSERT_TRUE(tokenizer);
  const std::unordered_set<Token> none;
  const c10::InferenceMode no_autograd;
  const auto result_of = [](const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (const auto* done = std::get_if<TextFinished>(&event)) return done->result;
    }
    return TextResult();
  };
  TextRequest request{.prompt = {3, 14, 15}};
  request.settings.sampling.temperature = 0.0;
  request.max_tokens = 30;
  request.ignore_end = true;
  TextRunner sharing({lm, *tokenizer, none}, {.max_prefixes = 1}),
      alone({lm, *tokenizer, none}, {});
  const auto wrong = std::make_shared<AlwaysWrong>();
  TextRequest first = request;
  first.drafter = wrong;
  sharing.submit(1, std::move(first));
  std::vector<Event> events;
  for (int i = 0; i < 8; ++i) sharing.step(events);
  ASSERT_TRUE(sharing.cancel(1, events));
  const TextResult begun = result_of(events);
  ASSERT_EQ(wrong->rejected, 2 * begun.tokens.size());
  request.prompt.insert(request.prompt.end(), begun.tokens.begin(), begun.tokens.end());
  request.prompt.push_back(9);
  const auto text = [&](TextRunner& runner) {
    events.clear();
    runner.submit(2, request);
    while (runner.busy()) runner.step(events);
    return result_of(events);
  };
  const TextResult shared = text(sharing), plain = text(alone);
  EXPECT_EQ(shared.tokens, plain.tokens);
  EXPECT_EQ(shared.shared_tokens, request.prompt.size() - 2);  // all that was read
  EXPECT_EQ(plain.shared_tokens, 0U);
}

}  // namespace
}  // namespace forerun
