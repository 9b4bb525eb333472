// The drafter of trees over scripted sources: what it learns, what it asks for, what it pays.
#include "forerun/methods/tree/tree_drafter.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"
#include "forerun/methods/lookup/lookup_source.h"
#include "forerun/methods/recycling/recycling_source.h"

namespace forerun {
namespace {

// The text counts up; a source knows the next token with some probability.
struct Script {
  double right = 0.5;     // its first choice
  std::size_t depth = 5;  // of its drafts
  std::size_t ranks = 3;  // candidates; the others are never right
  unsigned seed = 1;
  std::size_t unread = 0;      // tokens of the prompt, which a network reads in pieces
  double token_seconds = 0.0;  // of one of them
};

class Scripted : public NetworkSource {
 public:
  Scripted(const Script& script, bool network)
      : script_(script), network_(network), unread_(script.unread), random_(script.seed) {}

  HitRates rates() const override { return {script_.ranks, std::array{0.5}}; }
  bool begin(const TokenSequence& sequence) override {
    if (network_ && !queried_) return false;
    tokens_.assign(1, sequence.tokens().back());
    depths_.assign(1, 0);
    return true;
  }
  void add(std::size_t parent, Token token) override {
    ++added;
    tokens_.push_back(token);
    depths_.push_back(depths_[parent] + 1);
  }
  void children(std::vector<TreeChild>& out) override {
    if (depths_.back() >= script_.depth) return;
    const bool right = std::generate_canonical<double, 32>(random_) < script_.right;
    for (std::size_t r = 0; r < script_.ranks; ++r) {
      const Token token = r == 0 && right ? tokens_.back() + 1 : static_cast<Token>(1000000 + r);
      out.push_back({.token = token, .cell = {static_cast<std::uint16_t>(r), 0}});
    }
  }
  void forget(SequenceId) override {}
  std::size_t made() const override { return script_.depth; }
  State state(const TokenSequence&) const override { return {.ready = true, .unread = unread_}; }
  void query(std::span<const TokenSequence* const>) override {
    const std::size_t piece = std::min<std::size_t>(unread_, 128);
    unread_ -= piece;
    prefilled_.tokens += piece;
    prefilled_.seconds += static_cast<double>(piece) * script_.token_seconds;
    queried_ = unread_ == 0;
    queries += queried_ ? 1 : 0;
  }
  Prefilled prefilled() const override { return prefilled_; }
  std::span<const std::int64_t> features() const override { return {}; }
  std::int64_t state_width() const override { return 0; }
  void read(const TokenSequence&, const HiddenStates&) override {}
  void observe_states(const TokenSequence&, const HiddenStates&) override { queried_ = false; }
  bool share(SequenceId, SequenceId, std::int64_t) override { return true; }
  void alone() override { told_alone = true; }
  void earned(SequenceId) override { ++earnings; }
  void spent(SequenceId, double outputs) override { costs += outputs; }

  int earnings = 0;    // outputs that it alone has named,
  double costs = 0.0;  // and what checking its tokens cost, in outputs
  int queries = 0;
  std::size_t added = 0;  // nodes of all trees
  bool told_alone = false;

 private:
  Script script_;
  bool network_, queried_ = false;
  std::size_t unread_;
  Prefilled prefilled_;
  std::mt19937 random_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> depths_;
};

struct World {
  double row = 0.03;     // of a row more, of a pass
  double network = 0.0;  // of a run, of a pass
  double drift = 0.0;    // of every pass for ten rounds, and not for ten
};
struct Measured {
  double seconds = 0.0;
  std::size_t outputs = 0, rounds = 0, drafted = 0;
  int queries = 0, wasted = 0;  // runs of the network; those none of whose drafts were checked
};

Measured measure(
    std::vector<std::unique_ptr<TreeSource>> found, std::unique_ptr<Scripted> network,
    const World& world, std::size_t outputs, const std::function<void()>& after_round = [] {},
    const std::function<void(const TreeKnowledge&)>& at_end = [](const TreeKnowledge&) {}) {
  Scripted* const asked = network.get();
  TreeDrafter drafter(std::move(found), std::move(network), DraftLength(), 31);
  TokenSequence sequence(1, 0, {1, 2}, outputs);
  TokenSequence* const sequences[] = {&sequence};
  Measured out;
  while (!sequence.done()) {
    const int before = asked != nullptr ? asked->queries : 0;
    const double read = asked != nullptr ? asked->prefilled().seconds : 0.0;
    const auto drafts = drafter.propose(sequences, 0);
    Outcome outcome{.drafted = static_cast<std::uint32_t>(drafts[0].size())};
    std::int32_t at = -1;
    for (bool more = true; more;) {
      const Token y = sequence.tokens().back() + 1;
      outcome.examined += drafts[0].continues(at) ? 1 : 0;
      at = drafts[0].following(at, y);
      outcome.accepted += at >= 0 ? 1 : 0;
      more = sequence.push(y) && at >= 0;
      ++outcome.emitted;
    }
    const bool queried = asked != nullptr && asked->queries > before;
    const Timings seconds{.drafter = 1e-5 + (queried ? 0.01 * world.network : 0.0) +
                                     (asked != nullptr ? asked->prefilled().seconds - read : 0.0),
                          .target = 0.01 *
                                    (1.0 + world.row * static_cast<double>(drafts[0].size())) *
                                    (1.0 + (out.rounds / 10 % 2 == 0 ? 0.0 : world.drift)),
                          .rest = 1e-5};
    const VerifiedTokens none({}, {{}});
    const TextRound round{sequences, drafts, none, {&outcome, 1}, seconds};
    drafter.observe(round);
    drafter.learn(round, seconds, 0);
    out.seconds += seconds.total();
    out.drafted += outcome.drafted;
    out.wasted += queried && outcome.drafted == 0 ? 1 : 0;
    ++out.rounds;
    after_round();
  }
  at_end(drafter.control()->trees());
  out.outputs = outputs;
  out.queries = asked != nullptr ? asked->queries : 0;
  return out;
}

std::vector<std::unique_ptr<TreeSource>> one(const Script& script) {
  std::vector<std::unique_ptr<TreeSource>> out;
  out.push_back(std::make_unique<Scripted>(script, false));
  return out;
}

TEST(TreeDrafter, DraftsWhatPaysAndNotWhatDoesNot) {
  const Measured good = measure(one({.right = 0.9}), nullptr, {}, 3000);
  EXPECT_GT(static_cast<double>(good.outputs) / static_cast<double>(good.rounds), 3.0);
  const Measured useless = measure(one({.right = 0.0}), nullptr, {}, 3000);
  EXPECT_LT(useless.seconds, 1.02 * 0.01 * 3000);
  const Measured costly = measure(one({.right = 0.3}), nullptr, {.row = 0.5}, 3000);
  EXPECT_LT(costly.seconds, 1.02 * 0.01 * 3000);
}

TEST(TreeDrafter, GrowsNoFurtherThanPays) {
  const auto nodes_of_a_tree = [](double row) {
    std::vector<std::unique_ptr<TreeSource>> found = one({.right = 0.6});
    const auto& source = static_cast<const Scripted&>(*found[0]);
    std::size_t nodes = 0, rounds = 0;
    measure(std::move(found), nullptr, {.row = row}, 2000, [&] {
      nodes = source.added;
      ++rounds;
    });
    return static_cast<double>(nodes) / static_cast<double>(rounds);
  };
  EXPECT_LT(nodes_of_a_tree(0.5), 2.2);   // those that tests of drafting may need
  EXPECT_GT(nodes_of_a_tree(0.02), 4.0);  // as deep as the source drafts
}

TEST(TreeDrafter, ReadsAPromptOnlyWhereTheTextCoversIt) {
  const auto text = [](double token_seconds, double right = 0.9) {
    return measure(
        {},
        std::make_unique<Scripted>(
            Script{.right = right, .seed = 3, .unread = 700, .token_seconds = token_seconds}, true),
        {.network = 0.1}, 128);
  };
  // One piece is read before its cost is known; the rest would cost 11 more outputs of the 128.
  const double piece = 128 * 2e-4;
  EXPECT_LT(text(2e-4).seconds, 0.01 * (128 + 1) * 1.01 + piece);
  EXPECT_EQ(text(2e-4).queries, 0);
  // Worth reading, but nothing comes of it: credit, share, and what trial runs may cost.
  EXPECT_LT(text(2e-5, 0.0).seconds, 0.01 * (DraftLength().credit() + 128 * (1 + 0.02 + 0.01)));
  EXPECT_LT(text(1e-5).seconds, 0.7 * 0.01 * 128);
}

TEST(TreeDrafter, TellsASourceThatNoOtherDraftsBesideIt) {
  const auto told = [](std::vector<std::unique_ptr<TreeSource>> found) {
    auto network = std::make_unique<Scripted>(Script{}, true);
    const Scripted& asked = *network;
    const TreeDrafter drafter(std::move(found), std::move(network), DraftLength(), 31);
    return asked.told_alone;
  };
  EXPECT_TRUE(told({}));
  EXPECT_FALSE(told(one({})));
}

// A source pays for the rows of tokens that no other names, and is paid for those that are right.
TEST(TreeDrafter, ChargesASourceForWhatItAloneDrafts) {
  const auto text = [](bool twice) {
    std::vector<std::unique_ptr<TreeSource>> found = one({.right = 0.8, .ranks = 1});
    if (twice) found.push_back(std::make_unique<Scripted>(Script{.right = 0.8, .ranks = 1}, false));
    const auto& source = static_cast<const Scripted&>(*found[0]);
    double costs = 0.0;
    int earned = 0;
    const Measured seen = measure(std::move(found), nullptr, {.row = 0.1}, 1000, [&] {
      costs = source.costs;
      earned = source.earnings;
    });
    return std::tuple(seen, costs, earned);
  };
  const auto [seen, costs, earned] = text(false);
  const double plain = 0.01, saved = plain * static_cast<double>(seen.outputs) - seen.seconds;
  EXPECT_EQ(static_cast<std::size_t>(earned), seen.outputs - seen.rounds);
  // Rows of a tenth of a pass, at the outputs a second of each plan.
  const double rate = static_cast<double>(seen.outputs) / seen.seconds;
  EXPECT_NEAR(costs, 0.1 * plain * rate * static_cast<double>(seen.drafted), 0.15 * costs);
  EXPECT_GT(saved, 0.3 * plain * static_cast<double>(seen.outputs));
  EXPECT_EQ(std::get<1>(text(true)), 0.0);  // the other one, of the same seed, names them all
  EXPECT_EQ(std::get<2>(text(true)), 0);
}

TEST(TreeDrafter, ReadsUnreachedLogitsIfASourceDoes) {
  const auto reads = [](std::unique_ptr<TreeSource> source) {
    std::vector<std::unique_ptr<TreeSource>> found = one({});
    if (source) found.push_back(std::move(source));
    return TreeDrafter(std::move(found), nullptr, DraftLength(), 31).unreached_logits();
  };
  EXPECT_EQ(reads(nullptr), 0);
  EXPECT_EQ(reads(std::make_unique<RecyclingSource>()), RecyclingSource().unreached_logits());
  EXPECT_GT(RecyclingSource().unreached_logits(), 0);
}

TEST(TreeDrafter, RunsTheNetworkWhereItPays) {
  const auto network = [](double right) {
    return std::make_unique<Scripted>(Script{.right = right, .seed = 3}, true);
  };
  const Measured pays = measure({}, network(0.7), {.network = 0.3}, 3000);
  EXPECT_GT(pays.queries, static_cast<int>(pays.rounds * 9 / 10));
  EXPECT_LT(pays.seconds, 0.75 * 0.01 * 3000);
  const Measured useless = measure({}, network(0.0), {.network = 0.3}, 3000);
  EXPECT_LT(useless.queries, 60);
  EXPECT_LT(useless.seconds, 1.03 * 0.01 * 3000);
  // What is found for nothing is as good.
  const Measured needless = measure(one({.right = 0.8}), network(0.3), {.network = 0.5}, 3000);
  EXPECT_LT(needless.queries, static_cast<int>(needless.rounds / 4));
}

// Of a source that is right half the time beside a network that is right nine times of ten, and is
// credited with the tokens that both name, a tenth of the other tokens are right.
TEST(TreeDrafter, LearnsWhatFoundTokensAreWorthWithAndWithoutTheNetwork) {
  int looked = 0;
  measure(
      one({.right = 0.5}), std::make_unique<Scripted>(Script{.right = 0.9, .seed = 3}, true), {},
      4000, [] {},
      [&](const TreeKnowledge& known) {
        ++looked;
        EXPECT_NEAR(known.rates[0].probability({0, 0}), 0.5, 0.08);
        EXPECT_NEAR(known.rates[1].probability({0, 0}), 0.9, 0.06);
        EXPECT_NEAR(known.agreement.probability(0.5, 0.0), 0.5, 0.08);
        EXPECT_LT(known.agreement_with_network.probability(0.5, 0.0), 0.2);
      });
  EXPECT_EQ(looked, 1);
}

TEST(TreeDrafter, RunsNoNetworkForARoundThatOnlyMeasures) {
  const Measured m = measure({}, std::make_unique<Scripted>(Script{.right = 0.9, .seed = 3}, true),
                             {.network = 0.3, .drift = 0.5}, 3000);
  EXPECT_GT(static_cast<int>(m.rounds) - m.queries, 20);  // many rounds measure
  EXPECT_LT(m.wasted, 5);
}

TEST(TreeDrafter, AlwaysDraftsAllIfTheLengthIsFixed) {
  std::vector<std::unique_ptr<TreeSource>> found = one({.right = 0.0});
  TreeDrafter drafter(std::move(found), nullptr, DraftLength({.adaptive = false}), 7);
  TokenSequence sequence(1, 0, {1, 2}, 100), nearly(1, 1, {1, 2}, 1);
  TokenSequence* const sequences[] = {&sequence, &nearly};
  const auto drafts = drafter.propose(sequences, 0);
  EXPECT_EQ(drafts[0].size(), 7U);
  EXPECT_EQ(drafts[1].size(), 0U);  // its only output is the target's own
}

// A source over a text.
class Grown {
 public:
  explicit Grown(std::vector<Token> text) : sequence_(1, 0, std::move(text), 100) {}
  TokenTree tree(std::size_t nodes, std::size_t depth) {
    const HitRates rates = source_.rates();
    if (!source_.begin(sequence_)) return {};
    return TokenTree::grow({.nodes = nodes, .depth = depth},
                           [&](const TokenTree& t, std::size_t n) {
                             if (n != TokenTree::kRoot)
                               source_.add(t.node(n).parent, t.node(n).token);
                             std::vector<TreeChild> out;
                             source_.children(out);
                             for (TreeChild& child : out)
                               child.probability = rates.probability(child.cell);
                             return out;
                           });
  }

 private:
  LookupSource source_;
  TokenSequence sequence_;
};

TEST(LookupSource, FindsEveryContinuationTheLikelierFirst) {
  // After 5 6 came 7 (twice) and 8.
  const TokenTree tree = Grown({5, 6, 7, 1, 5, 6, 8, 2, 5, 6, 7, 3, 5, 6}).tree(2, 1);
  ASSERT_EQ(tree.node(0).children.size(), 2U);
  EXPECT_EQ(tree.node(0).children[0].token, 7);
  EXPECT_EQ(tree.node(0).children[1].token, 8);
  EXPECT_GT(tree.node(1).reach, tree.node(2).reach);
}

TEST(LookupSource, ALongerMatchCountsMore) {
  // 4 5 6 was followed by 8 once, 5 6 alone by 7 twice.
  const TokenTree tree = Grown({4, 5, 6, 8, 1, 5, 6, 7, 2, 5, 6, 7, 3, 4, 5, 6}).tree(2, 1);
  EXPECT_EQ(tree.node(1).token, 8);
}

TEST(LookupSource, FollowsALoopOfAnyPeriod) {
  for (Token period = 1; period < 5; ++period) {
    std::vector<Token> text{99};
    for (int i = 0; i < 12; ++i) text.push_back(10 + i % period);
    const TokenDraft draft = Grown(text).tree(9, 9).draft(9);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(draft.tokens[static_cast<std::size_t>(i)], 10 + (12 + i) % period) << period;
    }
  }
}

TEST(LookupSource, FallsBackToTheLastTokenAlone) {
  const TokenTree tree = Grown({5, 6, 1, 6}).tree(3, 3);
  ASSERT_GE(tree.size(), 1U);
  EXPECT_EQ(tree.node(1).token, 1);
  EXPECT_EQ(Grown({5, 6, 1, 7}).tree(3, 3).size(), 0U);
  EXPECT_EQ(Grown({5}).tree(3, 3).size(), 0U);
}

// The first draft after a text under shared noise.
TokenDraft first_draft(std::vector<Token> text, std::uint64_t seed, double temperature) {
  std::vector<std::unique_ptr<TreeSource>> found;
  found.push_back(std::make_unique<LookupSource>());
  TreeDrafter drafter(std::move(found), nullptr, DraftLength({.adaptive = false}), 1);
  TokenSequence sequence(seed, 0, std::move(text), 100, {},
                         {.sampling = {.temperature = static_cast<float>(temperature)},
                          .rule = Rule::kSharedNoise,
                          .changes = {}});
  TokenSequence* const sequences[] = {&sequence};
  return drafter.propose(sequences, 0).at(0);
}

TEST(TreeDrafter, RanksFoundTokensByTheNoiseThatDecides) {
  // After 5 6 came 7 (twice) and 8.
  const std::vector<Token> text = {5, 6, 7, 1, 5, 6, 8, 2, 5, 6, 7, 3, 5, 6};
  int eights = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    EXPECT_EQ(first_draft(text, seed, 0.0).tokens, std::vector<Token>{7});
    const TokenDraft draft = first_draft(text, seed, 0.7);
    ASSERT_EQ(draft.size(), 1U);
    const RngKey key = TokenSequence(seed, 0, text, 100).key_at(text.size());
    const double more = shared_noise(8, key) - shared_noise(7, key);
    if (draft.tokens[0] == 8) {
      EXPECT_GT(more, 0.0) << seed;
      ++eights;
    } else if (more > 4.0) {
      ADD_FAILURE() << "noise of " << more << " for 8, seed " << seed;
    }
  }
  EXPECT_GT(eights, 20);
  EXPECT_LT(eights, 200);
}

}  // namespace
}  // namespace forerun
