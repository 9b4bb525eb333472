// Rows that a drafter adds to the target's pass: what they compute, and that nobody notices them.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "forerun/engine/text_runner.h"
#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/methods/lookup/lookup_source.h"
#include "forerun/methods/tidar/tidar_source.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/random_adapters.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

// A drafter of random drafts, some right, as chains or trees, with random rows beside them: trees
// and blocks of masks, after the text, after drafts, after each other, with positions left out.
class RandomRows final : public TextDrafter {
 public:
  RandomRows(const DecoderLm& model, bool adds) : model_(model), adds_(adds) {}

  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences, std::size_t) override {
    std::vector<TokenDraft> drafts;
    rows_.assign(sequences.size(), {});
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      drafts.push_back(draft());
      if (sequences[i]->remaining() <= drafts.back().size()) drafts.back() = {};
      if (adds_) rows_[i] = companions(drafts.back());
    }
    asked_ = {};
    for (std::size_t i = 0; i < sequences.size(); ++i) asked_[sequences[i]->id()] = rows_[i];
    return drafts;
  }
  std::span<const CompanionRows> companions() const override { return rows_; }
  void observe(const TextRound& round) override {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const CompanionRows& asked = asked_.at(round.sequences[i]->id());
      const std::size_t rows = round.verified.companion_rows(i);
      dropped += rows == 0 ? asked.rows() : 0;
      if (rows == 0) continue;
      EXPECT_EQ(rows, asked.rows());
      ran += rows;
      if (checks > 0) check(round, i, asked);
    }
  }
  void forget(SequenceId) override {}

  std::size_t ran = 0, dropped = 0;
  int checks = 0;  // rounds whose logits are compared with passes of their own

 private:
  Token token() { return static_cast<Token>(random_() % 150); }
  TokenDraft draft() {
    TokenDraft out;
    const std::size_t n = random_() % 5;
    const bool tree = random_() % 2 == 0;
    for (std::size_t i = 0; i < n; ++i) {
      out.tokens.push_back(random_() % 2 == 0 ? common_ : token());
      if (tree) out.parents.push_back(static_cast<std::int32_t>(random_() % (i + 1)) - 1);
    }
    for (std::size_t i = 0; tree && i < n; ++i) {  // siblings differ
      for (std::size_t j = 0; j < i; ++j) {
        if (out.parent(i) == out.parent(j) && out.tokens[i] == out.tokens[j]) {
          out.tokens[i] = static_cast<Token>(i + 1);
        }
      }
    }
    return out;
  }
  CompanionRows companions(const TokenDraft& draft) {
    CompanionRows rows;
    const auto drafted = static_cast<std::int32_t>(draft.size());
    for (std::uint32_t block = random_() % 4; block > 0; --block) {
      const bool masks = random_() % 2 == 0;
      const auto first = static_cast<std::int32_t>(rows.rows());
      std::int32_t parent = static_cast<std::int32_t>(random_() % (draft.size() + 1)) - 1;
      for (std::int32_t i = 0; i < 3; ++i) {
        const auto skip = static_cast<std::int32_t>(i == 0 ? random_() % 3 : 0);
        const std::int32_t row = rows.add(token(), parent, skip, masks ? first : -1);
        if (random_() % 3 != 0) rows.scored.push_back(row);
        parent = drafted + row;
      }
    }
    return rows;
  }
  // Every scored row against a pass over the text up to its own way alone.
  void check(const TextRound& round, std::size_t i, const CompanionRows& rows) {
    --checks;
    const TokenSequence& sequence = *round.sequences[i];
    const TokenDraft& draft = round.drafts[i];
    const auto text = sequence.tokens().first(sequence.tokens().size() - round.outcomes[i].emitted);
    const auto drafted = static_cast<std::int32_t>(draft.size());
    for (std::size_t s = 0; s < rows.scored.size(); ++s) {
      // Its way, and the rest of its block: the rows after it in the same group.
      std::vector<std::int32_t> way;
      const auto parent = [&](std::int32_t at) {
        return at < drafted ? draft.parent(static_cast<std::size_t>(at))
                            : rows.parents[static_cast<std::size_t>(at - drafted)];
      };
      for (std::int32_t at = drafted + rows.scored[s]; at >= 0; at = parent(at)) way.push_back(at);
      std::reverse(way.begin(), way.end());
      const auto own = static_cast<std::int64_t>(way.size());
      const std::int32_t group = rows.groups[static_cast<std::size_t>(rows.scored[s])];
      for (std::int32_t r = rows.scored[s] + 1; r < static_cast<std::int32_t>(rows.rows()); ++r) {
        if (group >= 0 && rows.groups[static_cast<std::size_t>(r)] == group) {
          way.push_back(drafted + r);
        }
      }
      std::vector<Token> tokens = {text.back()};
      std::vector<std::int32_t> parents = {-1}, groups = {-1}, skips = {0};
      for (const std::int32_t at : way) {
        const auto c = static_cast<std::size_t>(at - drafted);
        tokens.push_back(at < drafted ? draft.tokens[static_cast<std::size_t>(at)]
                                      : rows.tokens[c]);
        parents.push_back(static_cast<std::int32_t>(parents.size()) - 1);
        groups.push_back(at < drafted ? -1 : rows.groups[c]);
        skips.push_back(at < drafted ? 0 : rows.skips[c]);
      }
      KvCache cache = model_.make_cache();
      if (text.size() > 1) prefill(model_, cache, text.first(text.size() - 1));
      const auto row = static_cast<std::int32_t>(own);
      const SequenceSpan span{.cache = &cache,
                              .tokens = tokens,
                              .parents = parents,
                              .groups = groups,
                              .skips = skips,
                              .scored_rows = {&row, 1}};
      const at::Tensor want = forward(model_, {&span, 1});
      const auto got = round.verified.companion(i, s);
      for (std::size_t v = 0; v < got.size(); ++v) {
        const float expected = want.data_ptr<float>()[v];
        if (model_.int8) {
          ASSERT_EQ(got[v], expected);
        } else {
          ASSERT_NEAR(got[v], expected, 1e-4);
        }
      }
    }
  }

  const DecoderLm& model_;
  bool adds_;
  std::mt19937 random_{17};
  Token common_ = 7;
  std::vector<CompanionRows> rows_;
  std::map<SequenceId, CompanionRows> asked_;
};

class Companions : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (GetParam() == Precision::kInt8 && !cpu_features().int8()) {
      GTEST_SKIP() << "this processor has no AVX2";
    }
    const Gguf gguf = load_gguf(kTiny + "llama_plain/model.gguf");
    lm_ = load_decoder(gguf, GetParam());
    Result<Tokenizer> tokenizer = make_tokenizer(*tokenizer_spec(gguf));
    ASSERT_TRUE(tokenizer);
    tokenizer_ = std::make_unique<Tokenizer>(*std::move(tokenizer));
  }
  TextModel model() const { return {lm_, *tokenizer_, none_}; }
  static TextRequest request(std::size_t i, std::shared_ptr<TextDrafter> drafter) {
    TextRequest out{.prompt = {}, .seed = 3, .request = static_cast<std::uint32_t>(i)};
    for (std::size_t j = 0; j < 5 + 9 * i; ++j) {
      out.prompt.push_back(static_cast<Token>((i * 13 + j * j * 7) % 150));
    }
    out.settings.rule = Rule::kSharedNoise;
    out.settings.sampling.temperature = i % 2 == 0 ? 0.0 : 0.8;
    out.max_tokens = 60;
    out.ignore_end = true;
    out.drafter = std::move(drafter);
    return out;
  }
  std::map<RequestId, std::vector<Token>> run(TextRunner& runner) {
    const c10::InferenceMode no_autograd;
    std::map<RequestId, std::vector<Token>> out;
    std::vector<Event> events;
    while (runner.busy()) {
      events.clear();
      runner.step(events);
      for (const Event& event : events) {
        if (const auto* done = std::get_if<TextFinished>(&event)) {
          out[done->id] = done->result.tokens;
        }
        if (const auto* failed = std::get_if<Failed>(&event)) ADD_FAILURE() << failed->message;
      }
    }
    return out;
  }
  std::vector<Token> plain(std::size_t i) {
    TextRunner runner(model(), {});
    runner.submit(0, request(i, nullptr));
    return run(runner).at(0);
  }

  DecoderLm lm_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unordered_set<Token> none_;
};

TEST_P(Companions, ChangeNoTextAndComputeWhatAPassOfTheirOwnDoes) {
  const auto adds = std::make_shared<RandomRows>(lm_, true);
  const auto drafts = std::make_shared<RandomRows>(lm_, false);
  adds->checks = 40;
  TextRunner runner(model(), {});
  for (std::size_t i = 0; i < 6; ++i) {
    runner.submit(i, request(i, i % 3 == 0 ? adds : i % 3 == 1 ? drafts : nullptr));
  }
  const auto texts = run(runner);
  EXPECT_GT(adds->ran, 50U);
  EXPECT_EQ(adds->dropped, 0U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(texts.at(i), plain(i)) << i;
}

TEST_P(Companions, GoFirstIfMemoryIsShort) {
  if (GetParam() != Precision::kInt8) GTEST_SKIP() << "float caches have room for their rows";
  // Pages for the text itself, one more for branches of a draft, none for many rows.
  KvCache probe = lm_.make_cache();
  const std::size_t page = probe.bytes_to_reserve(1);
  const auto adds = std::make_shared<RandomRows>(lm_, true);
  TextRunner runner(model(), {.kv_bytes = 2 * page});
  runner.submit(0, request(0, adds));  // ends with 65 positions
  const auto texts = run(runner);
  EXPECT_EQ(texts.at(0), plain(0));
  EXPECT_GT(adds->dropped, 0U);
  EXPECT_GT(adds->ran, 0U);
}

TEST_P(Companions, EndWhereTheContextEnds) {
  lm_.config.context = 30;
  const auto adds = std::make_shared<RandomRows>(lm_, true);
  TextRunner runner(model(), {});
  runner.submit(0, request(1, adds));  // 14 tokens and 16 outputs
  const auto texts = run(runner);
  EXPECT_EQ(texts.at(0).size(), 16U);
  EXPECT_EQ(texts.at(0), plain(1));
  EXPECT_GT(adds->dropped, 0U);
}

// A replica of mask rows in the verifying pass against a pass over the text that it assumes.
class Replicas {
 public:
  Replicas(const DecoderLm& model, const GatedLora& lora) : model_(model), lora_(lora) {}

  void check(const TextRound& round, const CompanionRows& rows) {
    if (round.verified.companion_rows(0) == 0) return;
    const TokenSequence& sequence = *round.sequences[0];
    const TokenDraft& draft = round.drafts[0];
    const auto slots = static_cast<std::size_t>(lora_.config.slots());
    for (std::size_t first = 0; first < rows.rows(); first += slots) {
      std::vector<Token> text;
      for (std::int32_t at = rows.parents[first]; at >= 0;
           at = draft.parent(static_cast<std::size_t>(at))) {
        text.insert(text.begin(), draft.tokens[static_cast<std::size_t>(at)]);
      }
      const auto before = sequence.tokens().first(
          sequence.tokens().size() - static_cast<std::size_t>(round.outcomes[0].emitted));
      text.insert(text.begin(), before.begin(), before.end());
      const at::Tensor want = alone(text);
      for (std::size_t s = 0; s < slots; ++s) {
        const auto got = round.verified.companion(0, first + s);
        const float* expected = want.data_ptr<float>() + s * got.size();
        for (std::size_t v = 0; v < got.size(); ++v) {
          if (model_.int8) {
            ASSERT_EQ(got[v], expected[v]);
          } else {
            ASSERT_NEAR(got[v], expected[v], 1e-4);
          }
        }
      }
      ++checked;
    }
  }
  int checked = 0;

 private:
  at::Tensor alone(const std::vector<Token>& text) const {
    KvCache cache = model_.make_cache();
    if (text.size() > 1) prefill(model_, cache, std::span(text).first(text.size() - 1));
    const auto slots = static_cast<std::int32_t>(lora_.config.slots());
    std::vector<Token> tokens = {text.back()};
    std::vector<std::int32_t> groups = {-1}, skips = {0}, masks;
    for (std::int32_t s = 0; s < slots; ++s) {
      tokens.push_back(0);
      groups.push_back(0);
      skips.push_back(s == 0 ? static_cast<std::int32_t>(lora_.config.first_slot) : 0);
      masks.push_back(s + 1);
    }
    const SequenceSpan span{.cache = &cache,
                            .tokens = tokens,
                            .groups = groups,
                            .skips = skips,
                            .scored_rows = masks,
                            .adapters = &lora_,
                            .masks = masks};
    return forward(model_, {&span, 1}).clone();
  }
  const DecoderLm& model_;
  const GatedLora& lora_;
};

TEST_P(Companions, FourFormsOfMaskRowsGiveOneTextAndReplicasAreTheirOwnPasses) {
  const auto lora = std::make_shared<const GatedLora>(
      in_precision(random_adapters(lm_.config, "", 4), GetParam()));
  for (const TidarForm form : {TidarForm::kFused, TidarForm::kPruned, TidarForm::kTwoPass,
                               TidarForm::kPlain, TidarForm::kMeasured}) {
    for (const std::size_t i : {0, 1}) {  // greedy, and under shared noise
      std::vector<std::unique_ptr<TreeSource>> sources;
      sources.push_back(std::make_unique<TidarSource>(lora, form));
      sources.push_back(std::make_unique<LookupSource>());
      const auto drafter = std::make_shared<TreeDrafter>(
          std::move(sources), nullptr, DraftLength({.adaptive = form == TidarForm::kMeasured}), 6);
      Replicas replicas(lm_, *lora);
      TextRequest wanted = request(i, drafter);
      wanted.observer = [&](const TextRound& round, std::size_t) {
        if (replicas.checked < 60) replicas.check(round, drafter->companions()[0]);
      };
      TextRunner runner(model(), {});
      runner.submit(0, std::move(wanted));
      EXPECT_EQ(run(runner).at(0), plain(i)) << static_cast<int>(form) << " " << i;
      if (form == TidarForm::kPlain) {
        EXPECT_EQ(replicas.checked, 0);
      } else if (form != TidarForm::kMeasured) {
        EXPECT_GT(replicas.checked, 5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Companions,
                         ::testing::Values(Precision::kF32, Precision::kInt8),
                         [](const auto& kind) {
                           return std::string(kind.param == Precision::kF32 ? "F32" : "Int8");
                         });

}  // namespace
}  // namespace forerun
