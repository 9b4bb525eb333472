#include "forerun/core/speculate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence.h"
#include "forerun/core/statistics.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/core/token_rule.h"
#include "tests/support/broken_rules.h"
#include "tests/support/samples.h"
#include "tests/support/toy_chain.h"

namespace forerun {
namespace {

using support::always;
using support::cell_of;
using support::continuation_counts;
using support::MarkovTable;
using support::ToyDrafter;
using support::ToyTarget;

constexpr std::array kExact = {Rule::kMaximal, Rule::kBlock, Rule::kMatch, Rule::kSharedNoise};
constexpr std::uint32_t kChains = support::samples(60000);
constexpr std::size_t kLength = 4;
const std::vector<Token> kPrompt = {0, 0};

// Conditionals depend on the last two of three tokens: 81 texts of four, each of known probability.
const MarkovTable& target_table() {
  static const MarkovTable table(3, 2, 1, 1.0F);
  return table;
}
const MarkovTable& garbage_table() {
  static const MarkovTable table(3, 2, 2, 2.0F);
  return table;
}

// 0 to 4 drafts, sometimes more than the sequence has room for.
ToyDrafter::Length uneven() {
  return
      [](const TokenSequence& sequence) { return (sequence.request() + 3 * sequence.round()) % 5; };
}

struct NamedDrafter {
  std::string name;
  ToyDrafter drafter;
};

std::vector<NamedDrafter> drafters() {
  return {{"none", ToyDrafter(garbage_table(), Origin::kChosen, always(0))},
          {"perfect", ToyDrafter(target_table(), Origin::kSampled, uneven())},
          {"garbage", ToyDrafter(garbage_table(), Origin::kSampled, uneven())},
          {"searched", ToyDrafter(garbage_table(), Origin::kSearched, uneven())},
          {"chosen", ToyDrafter(target_table(), Origin::kChosen, uneven())}};
}

// Chi-square at 1e-6 for 20 pairs of drafter and rule: fails by chance below 3e-5.
TEST(Speculate, TextsFollowTheTargetForEveryDrafterAndExactRule) {
  const auto law = target_table().continuations(kPrompt, kLength);
  for (NamedDrafter& d : drafters()) {
    for (const Rule rule : kExact) {
      const auto counts =
          continuation_counts(target_table(), d.drafter, TokenRule(rule), kChains, kLength);
      EXPECT_GT(chi_square_p(law, counts), 1e-6) << d.name << ", " << name_of(rule);
    }
  }
}

TEST(Speculate, ChiSquareRejectsEveryBrokenRule) {
  const auto law = target_table().continuations(kPrompt, kLength);
  ToyDrafter sampled(garbage_table(), Origin::kSampled, uneven());
  ToyDrafter searched(garbage_table(), Origin::kSearched, uneven());
  const auto p_of = [&](ToyDrafter& drafter, const auto& rule) {
    return chi_square_p(law,
                        continuation_counts(target_table(), drafter, rule, kChains / 2, kLength));
  };
  EXPECT_LT(p_of(sampled, support::RuleOf<support::resample_from_target>{}), 1e-9);
  EXPECT_LT(p_of(sampled, support::RuleOf<support::keep_every_draft>{}), 1e-9);
  EXPECT_LT(p_of(sampled, TokenRule(Rule::kTypical)), 1e-9);
  EXPECT_LT(p_of(searched, TokenRule(Rule::kRatioOnSearch)), 1e-9);
}

// Drafts two tokens at first; afterwards it drafts again only if the rejected draft was a 0.
class AdaptiveDrafter {
 public:
  AdaptiveDrafter(const MarkovTable& table, bool forgets_the_round)
      : table_(&table), forgets_the_round_(forgets_the_round) {}

  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences) {
    std::vector<TokenDraft> drafts;
    for (const TokenSequence* sequence : sequences) {
      TokenDraft draft{.origin = Origin::kSampled};
      const std::size_t first = sequence->tokens().size();
      const std::size_t n =
          sequence->round() == 0 ? 2 : lost_zero_at_[sequence->request()] == first;
      for (std::size_t i = 0; i < n; ++i) {
        RngKey key = sequence->key_at(first + i);
        if (forgets_the_round_) key.round = 0;
        draft.laws.push_back(table_->after({}));
        draft.tokens.push_back(draft.laws.back().sample(key.uniform(Purpose::kDraft)));
      }
      drafts.push_back(std::move(draft));
    }
    return drafts;
  }
  void observe(std::span<TokenSequence* const> sequences, const std::vector<TokenDraft>& drafts,
               const ToyTarget::Verified&, std::span<const Outcome> outcomes) {
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const bool lost = outcomes[i].examined < drafts[i].size();
      const bool zero = lost && drafts[i].tokens.back() == 0;
      lost_zero_at_[sequences[i]->request()] = zero ? sequences[i]->tokens().size() : 0;
    }
  }

 private:
  const MarkovTable* table_;
  bool forgets_the_round_;
  std::map<std::uint32_t, std::size_t> lost_zero_at_;
};

// Chi-square at 1e-6. The control reuses the number of a discarded draft: its second token is 0
// with probability .55 after a rejection, so .52 instead of .5.
TEST(Speculate, ADiscardedDraftMaySteerTheNextDraftLengthBecauseTheRoundIsPartOfThePlace) {
  const MarkovTable target(std::vector{0.5, 0.5});
  const MarkovTable draft(std::vector{0.9, 0.1});
  const auto law = target.continuations(kPrompt, 3);
  const TokenRule maximal(Rule::kMaximal);
  AdaptiveDrafter adaptive(draft, false);
  constexpr std::uint32_t kTexts = support::samples(100000);
  EXPECT_GT(chi_square_p(law, continuation_counts(target, adaptive, maximal, kTexts, 3)), 1e-6);
  if (support::kSanitized) return;  // too few texts to tell
  AdaptiveDrafter forgetful(draft, true);
  EXPECT_LT(chi_square_p(law, continuation_counts(target, forgetful, maximal, kTexts, 3)), 1e-9);
}

TEST(Speculate, APerfectDrafterIsAcceptedAlwaysAndCountersSaySo) {
  ToyDrafter perfect(target_table(), Origin::kSampled, always(3));
  RunStatistics statistics;
  continuation_counts(target_table(), perfect, TokenRule(Rule::kMaximal), 500, 8, statistics);
  EXPECT_EQ(statistics.rounds, 1000U);  // 3 drafts and a bonus, twice
  EXPECT_EQ(statistics.outputs, 4000U);
  EXPECT_EQ(statistics.drafted, 3000U);
  EXPECT_EQ(statistics.examined, (std::vector<std::uint64_t>{1000, 1000, 1000}));
  EXPECT_EQ(statistics.accepted, statistics.examined);
  EXPECT_EQ(statistics.tau(), 4.0);
  EXPECT_EQ(statistics.passes, 20U);  // ten batches of 50 sequences
  EXPECT_EQ(perfect.accepted, 3000U);
}

TEST(Speculate, PlainDecodingIsTheLoopWithoutDrafts) {
  ToyDrafter none(garbage_table(), Origin::kChosen, always(0));
  RunStatistics statistics;
  continuation_counts(target_table(), none, TokenRule(Rule::kMaximal), 50, 7, statistics);
  EXPECT_EQ(statistics.tau(), 1.0);
  EXPECT_EQ(statistics.passes, 7U);
  EXPECT_TRUE(statistics.examined.empty());
}

// Eight sequences that differ in prompt, budget and end.
TokenSequence sequence_number(std::uint32_t i) {
  const std::vector<Token> prompt(1 + i % 3, static_cast<Token>(i % 3));
  const Token end = i % 4 == 0 ? 2 : -1;
  return TokenSequence(99, i, prompt, 3 + 5 * i, [end](Token t) { return t == end; });
}

using Texts = std::vector<std::vector<Token>>;

Texts texts_of(std::span<const TokenSequence> sequences) {
  Texts texts;
  for (const TokenSequence& sequence : sequences) {
    texts.emplace_back(sequence.tokens().begin(), sequence.tokens().end());
  }
  return texts;
}

std::vector<TokenSequence> eight_sequences() {
  std::vector<TokenSequence> sequences;
  for (std::uint32_t i = 0; i < 8; ++i) sequences.push_back(sequence_number(i));
  return sequences;
}

Texts texts_together(ToyDrafter drafter, Rule rule, bool greedy = false) {
  std::vector<TokenSequence> sequences = eight_sequences();
  ToyTarget target(target_table(), greedy);
  speculate<TokenSequence>(sequences, target, drafter, TokenRule(rule), [] { return true; });
  EXPECT_EQ(target.done_sequences_verified, 0U);
  return texts_of(sequences);
}

Texts texts_alone(ToyDrafter drafter, Rule rule) {
  Texts texts;
  for (std::uint32_t i = 0; i < 8; ++i) {
    std::vector<TokenSequence> sequence = {sequence_number(i)};
    ToyTarget target(target_table());
    speculate<TokenSequence>(sequence, target, drafter, TokenRule(rule), [] { return true; });
    texts.push_back(texts_of(sequence)[0]);
  }
  return texts;
}

// Four sequences start; the others join two rounds later, in another order.
Texts texts_joining(ToyDrafter drafter, Rule rule) {
  std::vector<TokenSequence> sequences = eight_sequences();
  std::reverse(sequences.begin(), sequences.end());
  ToyTarget target(target_table());
  int rounds = 0;
  speculate<TokenSequence>(std::span(sequences).first(4), target, drafter, TokenRule(rule),
                           [&] { return rounds++ < 2; });
  EXPECT_EQ(target.passes, 2U);
  speculate<TokenSequence>(sequences, target, drafter, TokenRule(rule), [] { return true; });
  std::reverse(sequences.begin(), sequences.end());
  return texts_of(sequences);
}

TEST(Speculate, ASequencesTextDoesNotDependOnItsBatch) {
  for (const NamedDrafter& d : drafters()) {
    for (const Rule rule : kExact) {
      const Texts alone = texts_alone(d.drafter, rule);
      EXPECT_EQ(texts_together(d.drafter, rule), alone) << d.name << ", " << name_of(rule);
      EXPECT_EQ(texts_joining(d.drafter, rule), alone) << d.name << ", " << name_of(rule);
    }
  }
}

TEST(Speculate, UnderSharedNoiseTheTextIsThatOfPlainDecodingWhateverTheDrafter) {
  const Texts plain = texts_together(drafters()[0].drafter, Rule::kSharedNoise);
  for (const NamedDrafter& d : drafters()) {
    EXPECT_EQ(texts_together(d.drafter, Rule::kSharedNoise), plain) << d.name;
  }
  EXPECT_NE(texts_together(drafters()[2].drafter, Rule::kMaximal), plain);
}

TEST(Speculate, GreedyTokensEqualPlainDecodingUnderEveryRule) {
  const Texts plain = texts_together(drafters()[0].drafter, Rule::kMatch, true);
  for (const NamedDrafter& d : drafters()) {
    if (d.name == "none") continue;
    for (const Rule rule : {Rule::kMaximal, Rule::kSharedNoise, Rule::kTypical}) {
      EXPECT_EQ(texts_together(d.drafter, rule, true), plain) << d.name << ", " << name_of(rule);
    }
  }
  for (const std::vector<Token>& text : plain) {
    const std::span<const Token> t(text);
    const std::size_t prompt = 1 + static_cast<std::size_t>(&text - plain.data()) % 3;
    for (std::size_t i = prompt; i < t.size(); ++i) {
      EXPECT_EQ(t[i], target_table().after(t.first(i)).argmax());
    }
  }
}

TEST(Speculate, BudgetsAndEndsAreHonouredInTheMiddleOfADraft) {
  ToyDrafter perfect(target_table(), Origin::kSampled, always(9));
  std::vector<TokenSequence> sequences = eight_sequences();
  sequences.emplace_back(1, 50, kPrompt, 0);
  ToyTarget target(target_table());
  speculate<TokenSequence>(sequences, target, perfect, TokenRule(Rule::kMaximal),
                           [] { return true; });
  EXPECT_EQ(sequences.back().tokens().size(), kPrompt.size());
  EXPECT_EQ(sequences.back().round(), 0U);
  int ended = 0;
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto outputs = sequences[i].outputs();
    EXPECT_TRUE(sequences[i].done());
    EXPECT_LE(outputs.size(), 3 + 5 * i);
    const auto end = i % 4 == 0 ? std::find(outputs.begin(), outputs.end(), 2) : outputs.end();
    if (end == outputs.end()) {
      EXPECT_EQ(outputs.size(), 3 + 5 * i);
    } else {
      EXPECT_EQ(end + 1, outputs.end()) << "nothing follows the end";
      ++ended;
    }
    EXPECT_EQ(sequences[i].round(), (outputs.size() + 9) / 10)
        << "ten outputs a round, all accepted";
  }
  EXPECT_GE(ended, 1);
}

// Chi-square at 1e-6 over the texts as they end: a 2 ends a sequence, drafted, corrected or bonus.
TEST(Speculate, TextsThatEndEarlyFollowTheTarget) {
  const auto full = target_table().continuations(kPrompt, kLength);
  const auto cell_when_cut = [](std::vector<Token> text) {
    const auto end = std::find(text.begin(), text.end(), 2);
    if (end != text.end()) std::fill(end, text.end(), 2);
    text.resize(kLength, 2);
    return cell_of(text, 3);
  };
  std::vector<double> law(full.size(), 0.0);
  for (std::size_t cell = 0; cell < full.size(); ++cell) {
    const auto digit = [&](std::size_t d) { return static_cast<Token>(cell / d % 3); };
    law[cell_when_cut({digit(27), digit(9), digit(3), digit(1)})] += full[cell];
  }
  std::vector<std::size_t> counts(full.size(), 0);
  ToyDrafter garbage(garbage_table(), Origin::kSampled, uneven());
  ToyTarget target(target_table());
  for (std::uint32_t i = 0; i < kChains; ++i) {
    std::vector<TokenSequence> sequence = {
        {3, i, kPrompt, kLength, [](Token t) { return t == 2; }}};
    speculate<TokenSequence>(sequence, target, garbage, TokenRule(Rule::kMaximal),
                             [] { return true; });
    ++counts[cell_when_cut({sequence[0].outputs().begin(), sequence[0].outputs().end()})];
  }
  EXPECT_GT(chi_square_p(law, counts), 1e-6);
  EXPECT_LT(chi_square_p(full, counts), 1e-9);
}

// Checks and sums every round.
struct Auditor {
  std::uint64_t rounds = 0, examined = 0, accepted = 0, emitted = 0;

  template <class Round>
  void operator()(const Round& round) {
    ++rounds;
    ASSERT_EQ(round.drafts.size(), round.sequences.size());
    ASSERT_EQ(round.outcomes.size(), round.sequences.size());
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const Outcome& o = round.outcomes[i];
      const TokenSequence& sequence = *round.sequences[i];
      ASSERT_EQ(o.drafted, round.drafts[i].size());
      ASSERT_LE(o.accepted, o.examined);
      ASSERT_LE(o.examined, o.drafted);
      ASSERT_GE(o.examined, o.accepted);
      ASSERT_LE(o.examined - o.accepted, 1U) << "nothing is examined after a rejection";
      const bool cut = sequence.done() && o.emitted == o.accepted;
      ASSERT_EQ(o.emitted, o.accepted + (cut ? 0U : 1U));
      const auto latest = sequence.tokens().last(o.emitted);
      for (std::uint32_t s = 0; s < o.accepted; ++s) {
        ASSERT_EQ(latest[s], round.drafts[i].tokens[s]) << "an accepted draft is the output";
      }
      ASSERT_EQ(round.verified.laws[i].size(), o.drafted + 1U);
      examined += o.examined;
      accepted += o.accepted;
      emitted_by_sequence[sequence.request()] += o.emitted;
      emitted += o.emitted;
    }
  }
  std::map<std::uint32_t, std::size_t> emitted_by_sequence;
};

TEST(Speculate, ObserversTargetAndDrafterSeeConsistentCounters) {
  for (const NamedDrafter& d : drafters()) {
    for (const Rule rule : kExact) {
      ToyDrafter drafter = d.drafter;
      std::vector<TokenSequence> sequences = eight_sequences();
      ToyTarget target(target_table());
      Auditor auditor;
      RunStatistics statistics;
      speculate<TokenSequence>(
          sequences, target, drafter, TokenRule(rule), [] { return true; }, auditor, statistics);
      std::uint64_t outputs = 0, rounds = 0;
      for (const TokenSequence& sequence : sequences) {
        outputs += sequence.outputs().size();
        rounds += sequence.round();
        EXPECT_EQ(auditor.emitted_by_sequence[sequence.request()], sequence.outputs().size());
      }
      EXPECT_EQ(auditor.emitted, outputs);
      EXPECT_EQ(target.kept, outputs);
      EXPECT_EQ(drafter.accepted, auditor.accepted);
      EXPECT_EQ(target.passes, auditor.rounds);
      EXPECT_EQ(statistics.outputs, outputs);
      EXPECT_EQ(statistics.rounds, rounds);
      EXPECT_EQ(statistics.passes, auditor.rounds);
    }
  }
}

}  // namespace
}  // namespace forerun
