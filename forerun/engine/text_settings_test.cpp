// Texts of one pass have each their own settings, hidden states and log-probabilities.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "forerun/engine/text_runner.h"
#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using Texts = std::map<SequenceId, std::vector<Token>>;
// Of the positions of each text, as a drafter gets them.
using States = std::map<SequenceId, std::map<std::int64_t, std::vector<float>>>;

// Drafts what comes out, at every depth behind a wrong token that has a token below it: the kept
// rows of a pass are not its first ones.
class Prophet final : public TextDrafter {
 public:
  /// @param blocks  whose hidden states it reads
  /// @param texts   prompts and outputs; nothing is drafted for others
  Prophet(std::vector<std::int64_t> blocks, const DecoderLm& model, Texts texts)
      : blocks_(std::move(blocks)), hidden_(model.config.hidden), texts_(std::move(texts)) {}

  std::span<const std::int64_t> features() const override { return blocks_; }
  std::int64_t state_width() const override {
    return static_cast<std::int64_t>(blocks_.size()) * hidden_;
  }
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences, std::size_t) override {
    std::vector<TokenDraft> drafts;
    for (const TokenSequence* sequence : sequences) {
      TokenDraft& draft = drafts.emplace_back();
      const auto text = texts_.find(sequence->id());
      if (text == texts_.end()) continue;
      const std::size_t n = sequence->tokens().size();
      std::int32_t parent = -1;
      for (std::size_t d = 0; d < std::min<std::size_t>(3, sequence->remaining() - 1); ++d) {
        const Token right = text->second[n + d], wrong = (right + 1) % 150;
        const auto first = static_cast<std::int32_t>(draft.size());
        draft.tokens.insert(draft.tokens.end(), {wrong, wrong, right});
        draft.parents.insert(draft.parents.end(), {parent, first, parent});
        parent = first + 2;
      }
    }
    return drafts;
  }
  void read(const TokenSequence& sequence, const HiddenStates& rows) override {
    add(sequence, rows, static_cast<std::size_t>(rows.count));
  }
  void observe(const TextRound& round) override {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      kept += round.outcomes[i].accepted;
      add(*round.sequences[i], round.verified.states(i), round.outcomes[i].emitted);
    }
  }
  void forget(SequenceId) override {}

  std::size_t kept = 0;
  States states;

 private:
  void add(const TokenSequence& sequence, const HiddenStates& rows, std::size_t count) {
    const auto width = static_cast<std::size_t>(state_width());
    for (std::size_t i = 0; i < count; ++i) {
      const float* row = rows.rows + i * width;
      states[sequence.id()][rows.first + static_cast<std::int64_t>(i)] = {row, row + width};
    }
  }

  std::vector<std::int64_t> blocks_;
  std::int64_t hidden_;
  Texts texts_;
};

std::vector<TextRequest> different_requests() {
  std::vector<TextRequest> out;
  const auto add = [&](const TokenSettings& settings) {
    TextRequest request{.prompt = {3, 14, 15, static_cast<Token>(60 + out.size())}, .seed = 8};
    request.request = static_cast<std::uint32_t>(out.size());
    request.settings = settings;
    request.max_tokens = 24;
    request.ignore_end = true;
    request.log_probabilities = 2;
    out.push_back(std::move(request));
  };
  add({.sampling = {.temperature = 0.0}});
  add({.sampling = {.temperature = 1.0}});
  add({.sampling = {.temperature = 0.0},
       .changes = {.bias = {{40, 4.0F}}, .presence_penalty = 3.0}});
  add({.sampling = {.temperature = 0.9, .top_k = 20}, .rule = Rule::kSharedNoise});
  add({.sampling = {.temperature = 0.8},
       .rule = Rule::kMatch,
       .changes = {.frequency_penalty = 2.0}});
  add({.sampling = {.temperature = 0.0}, .rule = Rule::kSharedNoise});
  return out;
}

struct Written {
  std::map<RequestId, std::vector<Token>> tokens;
  // Of each output its own, and the likeliest tokens with theirs.
  std::map<RequestId, std::vector<std::vector<double>>> log_probabilities;
};

Written written(TextRunner& runner) {
  Written out;
  std::vector<Event> events;
  while (runner.busy()) runner.step(events);
  for (const Event& event : events) {
    if (const auto* failed = std::get_if<Failed>(&event)) ADD_FAILURE() << failed->message;
    if (const auto* token = std::get_if<TokenOutput>(&event)) {
      out.tokens[token->id].push_back(token->token);
      std::vector<double>& numbers = out.log_probabilities[token->id].emplace_back();
      numbers.push_back(token->log_probability);
      for (const auto& [t, p] : token->top) {
        numbers.insert(numbers.end(), {static_cast<double>(t), p});
      }
    }
  }
  return out;
}

class TextSettings : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    Result<Tokenizer> made = make_tokenizer(*tokenizer_spec(gguf_));
    ASSERT_TRUE(made);
    tokenizer_.emplace(*std::move(made));
  }
  // In int8: then a text has the same bits in any company.
  TextRunner runner() { return {{model_, *tokenizer_, none_}, {}}; }

  const Gguf gguf_ = load_gguf(kTiny + "llama_plain/model.gguf");
  const DecoderLm model_ = load_decoder(gguf_, Precision::kInt8);
  std::optional<Tokenizer> tokenizer_;
  const std::unordered_set<Token> none_;
  const c10::InferenceMode no_autograd_;
};

TEST_F(TextSettings, AreThoseOfEachTextWhateverElseIsInThePass) {
  const std::vector<TextRequest> requests = different_requests();
  // Drafters that read different blocks.
  const std::array<std::vector<std::int64_t>, 2> blocks = {std::vector<std::int64_t>{0},
                                                           std::vector<std::int64_t>{1, 0}};
  Written alone;
  std::array<Texts, 2> texts;
  std::array<States, 2> states;
  for (RequestId id = 0; id < requests.size(); ++id) {
    const auto reader = std::make_shared<Prophet>(blocks[id % 2], model_, Texts());
    TextRunner one = runner();
    TextRequest request = requests[id];
    request.drafter = reader;
    one.submit(id, std::move(request));
    Written text = written(one);
    ASSERT_EQ(text.tokens[id].size(), 24U);
    std::vector<Token>& all = texts[id % 2][id] = requests[id].prompt;
    all.insert(all.end(), text.tokens[id].begin(), text.tokens[id].end());
    alone.tokens.merge(text.tokens);
    alone.log_probabilities.merge(text.log_probabilities);
    states[id % 2].merge(reader->states);
  }
  for (const bool reversed : {false, true}) {
    std::array<std::shared_ptr<Prophet>, 2> prophets;
    for (const std::size_t k : {0U, 1U}) {
      prophets[k] = std::make_shared<Prophet>(blocks[k], model_, texts[k]);
    }
    TextRunner all = runner();
    for (RequestId i = 0; i < requests.size(); ++i) {
      const RequestId id = reversed ? requests.size() - 1 - i : i;
      TextRequest request = requests[id];
      request.drafter = prophets[id % 2];
      all.submit(id, std::move(request));
    }
    const Written together = written(all);
    EXPECT_EQ(together.tokens, alone.tokens);
    EXPECT_EQ(together.log_probabilities, alone.log_probabilities);
    for (const std::size_t k : {0U, 1U}) {
      EXPECT_TRUE(prophets[k]->states == states[k]) << "hidden states differ";
      EXPECT_EQ(prophets[k]->kept, 3U * 18U);  // three of every four outputs
    }
  }
}

// At temperature 1, without limits, bias and penalties.
TEST_F(TextSettings, LeaveLogProbabilitiesToTheModel) {
  TextRunner both = runner();
  TextRequest plain{.prompt = {3, 14, 15}, .seed = 8};
  plain.settings.sampling.temperature = 0.0;
  plain.max_tokens = 1;
  plain.ignore_end = true;
  plain.log_probabilities = 5;
  TextRequest changed = plain;
  changed.settings = {.sampling = {.temperature = 0.5, .top_k = 1},
                      .changes = {.bias = {{40, 90.0F}}, .repetition_penalty = 1.5}};
  both.submit(0, plain);
  both.submit(1, changed);
  Written out = written(both);
  EXPECT_EQ(out.tokens[1], std::vector<Token>{40});
  EXPECT_LT(out.log_probabilities[1][0][0], -0.5);
  for (auto& [id, numbers] : out.log_probabilities) numbers[0].erase(numbers[0].begin());
  EXPECT_EQ(out.log_probabilities[1], out.log_probabilities[0]);
}

}  // namespace
}  // namespace forerun
