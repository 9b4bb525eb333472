// What a drafter reads of a greedy pass: whole rows where the outputs may come, and of the others
// the first logits that it asks for.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <unordered_set>
#include <vector>

#include "forerun/engine/text_runner.h"
#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

constexpr std::int64_t kAsked = 100;  // logits, of 160: two panels and a part of the third

// Drafts trees around the text that comes out, and compares every row with a pass of its own.
class Reader final : public TextDrafter {
 public:
  /// @param text  prompt and outputs
  Reader(const DecoderLm& model, std::vector<Token> text) : model_(model), text_(std::move(text)) {}

  std::int64_t unreached_logits() const override { return kAsked; }
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences, std::size_t) override {
    TokenDraft draft;
    const std::size_t n = sequences[0]->tokens().size();
    std::int32_t parent = -1;
    for (std::size_t depth = 0; depth < 3 && n + depth + 1 < text_.size(); ++depth) {
      const Token right = text_[n + depth];
      const auto add = [&](Token token, std::int32_t after) {
        draft.tokens.push_back(token);
        draft.parents.push_back(after);
        return static_cast<std::int32_t>(draft.tokens.size()) - 1;
      };
      const std::int32_t wrong = add((right + 1) % 150, parent);
      add((right + 3) % 150, wrong);
      if (random_() % 4 == 0) break;
      parent = add(right, parent);
    }
    if (sequences[0]->remaining() <= draft.size()) draft = {};
    return {draft};
  }
  void observe(const TextRound& round) override {
    const TokenSequence& sequence = *round.sequences[0];
    const TokenDraft& draft = round.drafts[0];
    const auto before = sequence.tokens().size() - round.outcomes[0].emitted;
    for (std::size_t step = 0; step <= draft.size(); ++step) {
      std::vector<Token> way;
      for (auto at = static_cast<std::int32_t>(step) - 1; at >= 0;
           at = draft.parent(static_cast<std::size_t>(at))) {
        way.insert(way.begin(), draft.tokens[static_cast<std::size_t>(at)]);
      }
      way.insert(way.begin(), text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(before));
      compare(round.verified.logits(0, step), way);
    }
  }
  void forget(SequenceId) override {}

  std::size_t reached = 0, unreached = 0;

 private:
  void compare(std::span<const float> got, const std::vector<Token>& text) {
    KvCache cache = model_.make_cache();
    const SequenceSpan span{.cache = &cache, .tokens = text, .scored = 1};
    const at::Tensor row = forward(model_, {&span, 1});
    const bool whole = !std::isnan(got[0]);
    ++(whole ? reached : unreached);
    const auto end = whole ? got.size() : static_cast<std::size_t>(kAsked);
    for (std::size_t v = whole ? 0 : 1; v < end; ++v) {
      ASSERT_EQ(got[v], row.const_data_ptr<float>()[v]) << v;
    }
  }

  const DecoderLm& model_;
  std::vector<Token> text_;
  std::mt19937 random_{5};
};

TEST(UnreachedLogits, AreThoseThatADrafterAsksFor) {
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  const Gguf gguf = load_gguf(kTiny + "llama_plain/model.gguf");
  const DecoderLm model = load_decoder(gguf, Precision::kInt8);
  Result<Tokenizer> made = make_tokenizer(*tokenizer_spec(gguf));
  ASSERT_TRUE(made);
  const Tokenizer tokenizer = *std::move(made);
  const std::unordered_set<Token> none;
  const c10::InferenceMode no_autograd;
  const auto text = [&](std::shared_ptr<TextDrafter> drafter) {
    TextRequest request{.prompt = {3, 14, 15, 92, 65, 35}, .seed = 1, .request = 0};
    request.settings.sampling.temperature = 0.0;
    request.max_tokens = 40;
    request.ignore_end = true;
    request.drafter = std::move(drafter);
    std::vector<Token> out = request.prompt;
    TextRunner runner({model, tokenizer, none}, {});
    runner.submit(0, std::move(request));
    std::vector<Event> events;
    while (runner.busy()) runner.step(events);
    for (const Event& event : events) {
      if (const auto* failed = std::get_if<Failed>(&event)) ADD_FAILURE() << failed->message;
      const auto* done = std::get_if<TextFinished>(&event);
      if (done == nullptr) continue;
      out.insert(out.end(), done->result.tokens.begin(), done->result.tokens.end());
    }
    return out;
  };
  const std::vector<Token> plain = text(nullptr);
  const auto reader = std::make_shared<Reader>(model, plain);
  EXPECT_EQ(text(reader), plain);
  EXPECT_GT(reader->reached, 30U);
  EXPECT_GT(reader->unreached, 30U);
}

}  // namespace
}  // namespace forerun
