// The rows of every form against the method's definition, what is kept of them, and the drawing in
// the documentation.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "forerun/methods/tidar/tidar_source.h"
#include "forerun/tensor/row_plan.h"

namespace forerun {
namespace {

std::shared_ptr<const GatedLora> adapters(std::int64_t block, std::int64_t first_slot) {
  GatedLora lora;
  lora.config.block = block;
  lora.config.first_slot = first_slot;
  lora.config.vocab = 8;
  return std::make_shared<const GatedLora>(in_precision(lora, Precision::kF32));
}

TokenDraft chain(std::int64_t drafts) {
  TokenDraft out;
  for (std::int64_t i = 0; i < drafts; ++i) out.tokens.push_back(static_cast<Token>(i));
  return out;
}

// A row as the paper tells it: its position after P cached tokens, and whom it sees of the pass.
struct Row {
  std::int64_t position;
  std::set<std::int64_t> sees;
  bool operator==(const Row&) const = default;
};

// Draft j of B is at P + j - 1 and sees drafts 1 to j. Slot s of replica r is at P + r + s and sees
// drafts 1 to r and all masks of the replica (TiDAR, arXiv:2511.08923, figure 3).
std::vector<Row> paper(std::int64_t block, std::int64_t first_slot) {
  std::vector<Row> rows;
  const auto drafts_up_to = [](std::int64_t j) {
    std::set<std::int64_t> out;
    for (std::int64_t i = 0; i < j; ++i) out.insert(i);
    return out;
  };
  for (std::int64_t j = 1; j <= block; ++j) rows.push_back({j - 1, drafts_up_to(j)});
  for (std::int64_t r = 1; r <= block; ++r) {
    std::set<std::int64_t> sees = drafts_up_to(r);
    const auto first = static_cast<std::int64_t>(rows.size());
    for (std::int64_t i = 0; i < block - first_slot; ++i) sees.insert(first + i);
    for (std::int64_t s = first_slot; s < block; ++s) rows.push_back({r + s, sees});
  }
  return rows;
}

std::vector<Row> planned(const TokenDraft& draft, const CompanionRows& rows) {
  std::vector<std::int32_t> parents = {-1}, groups(draft.size() + 1, -1), skips(groups.size(), 0);
  for (std::size_t i = 0; i < draft.size(); ++i) parents.push_back(draft.parent(i) + 1);
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    parents.push_back(rows.parents[i] + 1);  // kBeforeNewest: no row of the pass
    groups.push_back(rows.groups[i]);
    skips.push_back(rows.skips[i]);
  }
  const auto n = static_cast<std::int64_t>(parents.size());
  const RowPlan plan = RowPlan::of(n, parents, groups, skips);
  std::vector<Row> out;
  for (std::int64_t r = 0; r < n; ++r) {
    Row row{plan.depth(r), {}};
    for (const std::int32_t j : plan.seen(r)) {
      if (j >= 0) row.sees.insert(j);
    }
    out.push_back(row);
  }
  return out;
}

TEST(TidarRows, AreThoseOfThePaper) {
  for (const std::int64_t block : {1, 2, 3, 4, 8, 16}) {
    for (const std::int64_t first_slot : {0, 1}) {
      const auto lora = adapters(block, first_slot);
      const TokenDraft draft = chain(block - 1);
      CompanionRows rows;
      for (std::int32_t after = -1; after < static_cast<std::int32_t>(block) - 1; ++after) {
        add_replica(lora, {.after = after}, draft, rows);
      }
      EXPECT_EQ(rows.rows(), static_cast<std::size_t>(block * (block - first_slot)));
      EXPECT_EQ(rows.scored.size(), rows.rows());
      if (rows.empty()) continue;
      EXPECT_EQ(planned(draft, rows), paper(block, first_slot)) << block << " " << first_slot;
    }
  }
}

TEST(TidarRows, AReplicaOfATreeSeesItsOwnPathOnly) {
  const auto lora = adapters(3, 1);
  const TokenDraft tree{.tokens = {1, 2, 3}, .parents = {-1, -1, 1}};
  CompanionRows rows;
  add_replica(lora, {.after = 0}, tree, rows);
  add_replica(lora, {.after = 2}, tree, rows);
  const std::vector<Row> got = planned(tree, rows);
  EXPECT_EQ(got[4], (Row{3, {0, 1, 4, 5}}));
  EXPECT_EQ(got[7], (Row{5, {0, 2, 3, 6, 7}}));
}

// Of Nemotron-Labs-Diffusion: a copy of the token before the block is in it, and is seen in place
// of that token.
TEST(TidarRows, SeededReplicasSeeTheCopyOfTheirToken) {
  GatedLora seeded = *adapters(3, 0);
  seeded.config.seeded = true;
  seeded.config.mask_token = 6;
  const auto lora = std::make_shared<const GatedLora>(std::move(seeded));
  const TokenDraft tree{.tokens = {1, 2, 3}, .parents = {-1, -1, 1}};
  CompanionRows rows;
  add_replica(lora, {.after = -1, .newest = 5, .first_wanted = 1}, tree, rows);
  add_replica(lora, {.after = 2, .newest = 5, .first_wanted = 1}, tree, rows);
  EXPECT_EQ(rows.tokens, (std::vector<Token>{5, 6, 6, 6, 3, 6, 6, 6}));
  EXPECT_EQ(rows.masks, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rows.scored, (std::vector<std::int32_t>{2, 3, 6, 7}));
  const std::vector<Row> got = planned(tree, rows);
  EXPECT_EQ(got[4], (Row{0, {4, 5, 6, 7}}));
  EXPECT_EQ(got[7], (Row{3, {4, 5, 6, 7}}));
  EXPECT_EQ(got[8], (Row{2, {0, 2, 8, 9, 10, 11}}));
  EXPECT_EQ(got[11], (Row{5, {0, 2, 8, 9, 10, 11}}));
  EXPECT_EQ(rows.depths(tree), 5U);
}

TEST(TidarRows, EndsAreTheChancesOfEveryOutcome) {
  const TokenDraft tree{.tokens = {1, 2, 3}, .parents = {-1, -1, 0}};
  const std::vector<double> ends = ends_of(tree, std::vector<double>{0.5, 0.25, 0.4});
  ASSERT_EQ(ends.size(), 4U);
  EXPECT_DOUBLE_EQ(ends[0], 0.25);
  EXPECT_DOUBLE_EQ(ends[1], 0.5 - 0.4);
  EXPECT_DOUBLE_EQ(ends[2], 0.25);
  EXPECT_DOUBLE_EQ(ends[3], 0.4);
}

RowOffer offer(double row, std::span<const double> reach) {
  return {.price = [row](std::size_t rows) { return row * static_cast<double>(rows); },
          .reach = reach};
}

// After which tokens a form has replicas: parents of first rows.
std::vector<std::int32_t> replicas(TidarForm form, const TokenDraft& draft, double row,
                                   std::span<const double> reach) {
  TidarSource source(adapters(4, 1), form);
  TokenSequence sequence(1, 0, {5}, 100);
  CompanionRows rows;
  source.companions(sequence, draft, offer(row, reach), rows);
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    if (rows.skips[i] > 0) out.push_back(rows.parents[i]);
  }
  EXPECT_EQ(rows.rows(), 3 * out.size());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(TidarSource, FormsFollowFromWhatRowsCost) {
  using Rows = std::vector<std::int32_t>;
  const TokenDraft draft = chain(3);
  const std::vector<double> reach = {0.7, 0.4, 0.3};  // ends: 0.3, 0.3, 0.1, 0.3
  const auto of = [&](TidarForm form, double row) { return replicas(form, draft, row, reach); };
  EXPECT_EQ(of(TidarForm::kFused, 1e9), (Rows{-1, 0, 1, 2}));
  EXPECT_EQ(of(TidarForm::kPruned, 1e9), (Rows{-1, 0, 2}));
  EXPECT_EQ(of(TidarForm::kTwoPass, 0.0), Rows{});
  EXPECT_EQ(replicas(TidarForm::kTwoPass, {}, 1e9, {}), Rows{-1});
  EXPECT_EQ(of(TidarForm::kPlain, 0.0), Rows{});
  // Measured: a block is taken to be worth 0.6 outputs at first; three rows a replica.
  EXPECT_EQ(of(TidarForm::kMeasured, 0.0), (Rows{-1, 0, 1, 2}));
  EXPECT_EQ(of(TidarForm::kMeasured, 0.05), (Rows{-1, 0, 2}));
  EXPECT_EQ(of(TidarForm::kMeasured, 0.1), Rows{});
  EXPECT_EQ(replicas(TidarForm::kMeasured, {}, 0.1, {}), Rows{-1});
}

// Checking the drafts of a block costs rows too.
TEST(TidarSource, RunsNoRowsWhoseDraftsCostMoreThanTheyBring) {
  const auto rows_of_the_last = [](double cost) {
    TidarSource source(adapters(3, 1));
    TokenSequence sequence(1, 0, {5}, 100);
    at::Tensor logits = at::zeros({3, 8});
    std::size_t ran = 0;
    for (int round = 0; round < 30; ++round) {
      CompanionRows rows;
      source.companions(sequence, {}, offer(0.05, {}), rows);
      ran = rows.rows();
      if (ran == 0) break;
      const VerifiedTokens verified(
          logits, {{.first = 0, .count = 1, .companions = 2, .companion_rows = 2}});
      sequence.push(7);
      source.observe({.sequence = sequence,
                      .text = sequence.tokens().first(sequence.tokens().size() - 1),
                      .draft = {},
                      .outcome = {.emitted = 1},
                      .rows = verified,
                      .index = 0,
                      .companions_ran = true});
      source.earned(sequence.id());
      source.spent(sequence.id(), cost);
    }
    return ran;
  };
  EXPECT_EQ(rows_of_the_last(0.5), 2U);
  EXPECT_EQ(rows_of_the_last(2.0), 0U);
}

// A Markov head is packed once, however many texts draft with it.
TEST(TidarSource, TextsShareTheMarkovHeadOfTheAdapters) {
  GatedLora lora;
  lora.config.block = 3;
  lora.config.vocab = 8;
  lora.markov_w1 = at::randn({8, 2});
  lora.markov_w2 = at::randn({8, 2});
  const auto ready = std::make_shared<const GatedLora>(in_precision(lora, Precision::kF32));
  const TidarBlocks one(ready, TidarForm::kMeasured, TidarBlocks::Kept::kLikeliest),
      two(ready, TidarForm::kMeasured, TidarBlocks::Kept::kRows);
  ASSERT_TRUE(one.markov().defined());
  EXPECT_EQ(&one.markov(), &two.markov());
}

// The likeliest of both slots are `first` and the token after it.
void expect_block_of_two(TidarSource& source, Token first) {
  std::vector<TreeChild> children;
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const Token want = first + static_cast<Token>(slot);
    children.clear();
    source.children(children);
    ASSERT_FALSE(children.empty());
    EXPECT_EQ(children[0].token, want);
    source.add(slot, want);
  }
  children.clear();
  source.children(children);
  EXPECT_TRUE(children.empty());  // the block's end
}

// Of the replicas that ran the one after the last kept draft is the next block.
TEST(TidarSource, DraftsFromTheReplicaThatFitsTheOutcome) {
  struct Case {
    TokenDraft draft;
    std::uint32_t accepted;
    std::vector<std::int32_t> path;
    std::int32_t last;  // kept draft
  };
  const TokenDraft siblings{.tokens = {1, 2}, .parents = {-1, -1}};
  for (const auto& [draft, accepted, path, last] :
       {Case{chain(2), 0, {}, -1}, Case{chain(2), 1, {}, 0}, Case{chain(2), 2, {}, 1},
        Case{siblings, 0, {}, -1}, Case{siblings, 1, {0}, 0}, Case{siblings, 1, {1}, 1}}) {
    TidarSource source(adapters(3, 1), TidarForm::kFused);
    TokenSequence sequence(1, 0, {5}, 100);
    const std::vector<double> reach = {0.5, 0.25};
    CompanionRows rows;
    source.companions(sequence, draft, offer(0.0, reach), rows);
    ASSERT_EQ(rows.scored.size(), 6U);
    // Two rows of another source come first; then every mask row names a token of its own.
    at::Tensor logits = at::zeros({3 + 2 + 6, 8});
    std::map<std::int32_t, Token> first_choice;
    for (int i = 0; i < 6; ++i) {
      const Token token = 1 + i;
      logits[5 + i][token] = 9.0;
      if (i % 2 == 0) first_choice[rows.parents[static_cast<std::size_t>(i)]] = token;
    }
    const VerifiedTokens verified(logits,
                                  {{.first = 0, .count = 3, .companions = 8, .companion_rows = 8}});
    for (std::uint32_t i = 0; i <= accepted; ++i) sequence.push(7);
    const Outcome outcome{.drafted = 2,
                          .examined = std::min(accepted + 1, 2U),
                          .accepted = accepted,
                          .emitted = accepted + 1,
                          .path = path};
    source.observe({.sequence = sequence,
                    .text = sequence.tokens().first(1),
                    .draft = draft,
                    .outcome = outcome,
                    .rows = verified,
                    .index = 0,
                    .companions_ran = true,
                    .first_companion = 2});
    ASSERT_TRUE(source.begin(sequence));
    expect_block_of_two(source, first_choice.at(last));
    // A round whose rows did not run leaves no block.
    source.observe({.sequence = sequence,
                    .text = sequence.tokens(),
                    .draft = draft,
                    .outcome = outcome,
                    .rows = verified,
                    .index = 0});
    EXPECT_FALSE(source.begin(sequence));
  }
}

TEST(TidarDocs, DrawTheRowsAsTheyAre) {
  std::ifstream file(FORERUN_SOURCE_DIR "/docs/tidar.md");
  std::stringstream docs;
  docs << file.rdbuf();
  const TokenDraft draft = chain(3);
  CompanionRows rows;
  for (std::int32_t after = -1; after < 3; ++after)
    add_replica(adapters(4, 1), {.after = after}, draft, rows);
  EXPECT_NE(docs.str().find(drawn(draft, rows, 10)), std::string::npos) << drawn(draft, rows, 10);
}

}  // namespace
}  // namespace forerun
