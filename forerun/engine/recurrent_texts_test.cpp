// Targets with recurrent layers and many texts at once, with prompts that begin alike and drafts
// of every kind: each text is that of plain decoding alone.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "forerun/engine/text_runner.h"
#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/methods/draft_model/draft_model.h"
#include "forerun/methods/draft_model/draft_model_source.h"
#include "forerun/methods/lookup/lookup_source.h"
#include "forerun/methods/recycling/recycling_source.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using Tokens = std::vector<Token>;

// Drafts of which it knows the right tokens: chains and trees of these and of random ones, up to
// 30 tokens, with random rows beside them where `adds`.
class HalfRightDrafts final : public TextDrafter {
 public:
  HalfRightDrafts(const std::vector<Tokens>& texts, bool adds) : texts_(texts), adds_(adds) {}

  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences, std::size_t) override {
    std::vector<TokenDraft> drafts;
    rows_.assign(sequences.size(), {});
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      drafts.push_back(draft(*sequences[i]));
      if (sequences[i]->remaining() <= drafts.back().size()) drafts.back() = {};
      if (adds_) rows_[i] = beside(drafts.back());
    }
    return drafts;
  }
  std::span<const CompanionRows> companions() const override { return rows_; }
  void observe(const TextRound& round) override {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      added += round.verified.companion_rows(i);
      const auto emitted = static_cast<std::size_t>(round.outcomes[i].emitted);
      accepted += emitted - std::min<std::size_t>(emitted, 1);
    }
  }
  void forget(SequenceId) override {}

  std::size_t accepted = 0, added = 0;

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  Token token() { return static_cast<Token>(below(150)); }
  TokenDraft draft(const TokenSequence& sequence) {
    const auto known = sequence.tokens();
    const auto whole = std::find_if(texts_.begin(), texts_.end(), [&](const Tokens& t) {
      return t.size() > known.size() && std::equal(known.begin(), known.end(), t.begin());
    });
    const auto right_after = [&](std::size_t depth) {
      const std::size_t at = known.size() + depth;
      return whole != texts_.end() && at < whole->size() ? (*whole)[at] : token();
    };
    TokenDraft out;
    const std::size_t n = below(4) == 0 ? below(30) : below(8);
    const bool tree = below(2) == 0;
    std::vector<std::size_t> depths;
    std::int32_t last = -1;  // of the right way
    for (std::size_t i = 0; i < n; ++i) {
      const bool right = below(6) > 0;
      std::int32_t parent = static_cast<std::int32_t>(i) - 1;
      if (tree) parent = right ? last : static_cast<std::int32_t>(below(i + 1)) - 1;
      depths.push_back(parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1);
      Token next = right ? right_after(depths.back()) : token();
      for (std::size_t j = 0; tree && j < i; ++j) {  // siblings differ
        if (out.parent(j) == parent && out.tokens[j] == next) {
          next = static_cast<Token>((next + 1) % 150);
          j = static_cast<std::size_t>(-1);
        }
      }
      out.tokens.push_back(next);
      if (tree) out.parents.push_back(parent);
      if (right) last = static_cast<std::int32_t>(i);
    }
    return out;
  }
  CompanionRows beside(const TokenDraft& draft) {
    CompanionRows rows;
    const auto drafted = static_cast<std::int32_t>(draft.size());
    for (std::size_t n = below(6); n > 0; --n) {
      const auto parent = static_cast<std::int32_t>(below(draft.size() + rows.rows() + 1)) - 1;
      const std::int32_t row = rows.add(token(), parent, 0, -1);
      if (below(2) == 0) rows.scored.push_back(row);
      EXPECT_LT(parent, drafted + row);
    }
    return rows;
  }

  const std::vector<Tokens>& texts_;
  bool adds_;
  std::mt19937 random_{23};
  std::vector<CompanionRows> rows_;
};

class RecurrentTexts : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t kTexts = 24;

  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    const std::string folder = kTiny + GetParam();
    lm_ = load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kInt8);
    Result<Tokenizer> tokenizer =
        make_tokenizer(*tokenizer_spec(load_gguf(folder + "/model.gguf")));
    ASSERT_TRUE(tokenizer);
    tokenizer_ = std::make_unique<Tokenizer>(*std::move(tokenizer));
    std::vector<Tokens> beginnings(2);
    for (Tokens& beginning : beginnings) beginning = tokens(150);
    for (std::size_t i = 0; i < kTexts; ++i) {
      const Tokens& beginning = beginnings[random_() % 2];
      const std::size_t alike = i % 6 == 5 ? 90 : random_() % 150;
      Tokens prompt(beginning.begin(), beginning.begin() + static_cast<std::ptrdiff_t>(alike));
      const Tokens rest = tokens(i % 6 == 5 ? 0 : 1 + random_() % (i % 7 == 0 ? 80 : 10));
      prompt.insert(prompt.end(), rest.begin(), rest.end());
      prompts_.push_back(prompt);
      plain_.push_back(plain(i));
      whole_.push_back(prompt);
      whole_.back().insert(whole_.back().end(), plain_.back().begin(), plain_.back().end());
    }
  }
  // Of few tokens, so that lookup finds some.
  Tokens tokens(std::size_t n) {
    Tokens out;
    for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<Token>(10 + random_() % 12));
    return out;
  }
  TextRequest request(std::size_t i, std::shared_ptr<TextDrafter> drafter) const {
    TextRequest out{.prompt = prompts_[i], .seed = 5, .request = static_cast<std::uint32_t>(i)};
    out.settings.rule = Rule::kSharedNoise;
    out.settings.sampling.temperature = i % 3 == 0 ? 0.0 : 0.7;
    out.max_tokens = 10 + i * 7 % 40;
    out.ignore_end = true;
    out.drafter = std::move(drafter);
    return out;
  }
  TextModel model() const { return {lm_, *tokenizer_, none_}; }
  Tokens plain(std::size_t i) {
    TextRunner runner(model(), {});
    runner.submit(i, request(i, nullptr));
    std::map<RequestId, Tokens> out;
    while (runner.busy()) step(runner, out);
    return out.at(i);
  }
  static void step(TextRunner& runner, std::map<RequestId, Tokens>& out) {
    const c10::InferenceMode no_autograd;
    std::vector<Event> events;
    runner.step(events);
    for (const Event& event : events) {
      if (const auto* done = std::get_if<TextFinished>(&event)) out[done->id] = done->result.tokens;
      if (const auto* failed = std::get_if<Failed>(&event)) ADD_FAILURE() << failed->message;
    }
  }
  template <class Network>
  static std::shared_ptr<TextDrafter> tree(std::unique_ptr<TreeSource> found,
                                           std::unique_ptr<Network> network = nullptr) {
    std::vector<std::unique_ptr<TreeSource>> sources;
    sources.push_back(std::move(found));
    return std::make_shared<TreeDrafter>(std::move(sources), std::move(network),
                                         DraftLength({.adaptive = false}), 20);
  }
  // All texts, some of them twice, submitted while others run.
  void expect_plain(const TextRunnerOptions& options) {
    const auto right = std::make_shared<HalfRightDrafts>(whole_, false);
    const auto adding = std::make_shared<HalfRightDrafts>(whole_, true);
    const std::vector<std::shared_ptr<TextDrafter>> drafters = {
        nullptr,
        right,
        adding,
        tree<NetworkSource>(std::make_unique<LookupSource>()),
        tree<NetworkSource>(std::make_unique<RecyclingSource>()),
        tree(std::make_unique<LookupSource>(), std::make_unique<DraftModelSource>(lm_, 4)),
        std::make_shared<ControlledDrafter<DraftModelDrafter>>(
            DraftModelDrafter(lm_), DraftLength({.adaptive = false}), 5)};
    TextRunner runner(model(), options);
    std::map<RequestId, Tokens> out;
    for (std::size_t n = 0; n < 2 * kTexts; ++n) {
      const std::size_t kind = (n + n / drafters.size()) % drafters.size();
      runner.submit(n, request(n % kTexts, drafters[kind]));
      for (std::uint32_t steps = random_() % 4; steps > 0 && runner.busy(); --steps) {
        step(runner, out);
      }
    }
    while (runner.busy() && !HasFailure()) step(runner, out);
    for (std::size_t n = 0; n < 2 * kTexts; ++n) {
      EXPECT_EQ(out[n], plain_[n % kTexts]) << "text " << n;
    }
    EXPECT_GT(right->accepted, 50U);
    EXPECT_GT(adding->accepted, 50U);
    EXPECT_GT(adding->added, 20U);
  }

  std::mt19937 random_{29};
  DecoderLm lm_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unordered_set<Token> none_;
  std::vector<Tokens> prompts_, plain_, whole_;
};

TEST_P(RecurrentTexts, ArePlainInAnyCompany) { expect_plain({}); }

TEST_P(RecurrentTexts, ArePlainWhereBeginningsAreShared) { expect_plain({.max_prefixes = 8}); }

TEST_P(RecurrentTexts, ArePlainWhereFewRunAtATime) {
  expect_plain({.max_active = 3, .max_prefixes = 30});
}

TEST_P(RecurrentTexts, ArePlainWhereMemoryIsShort) {
  const std::size_t one = lm_.make_cache().bytes_to_reserve(250);
  expect_plain({.kv_bytes = 3 * one, .max_prefixes = 8});
}

INSTANTIATE_TEST_SUITE_P(Tiny, RecurrentTexts, ::testing::Values("lfm2", "qwen3_5"),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace forerun
