// Chains, against the search by its definition.
#include "forerun/methods/diffuspec/diffuspec_drafter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "forerun/core/rng_key.h"
#include "tests/support/searched_drafts.h"

namespace forerun {
namespace {

TEST(DiffuSpecDrafts, AreTheBestPathsOfTheSearch) {
  std::size_t differ = 0, checked = 0;
  for (const bool reduced : {false, true}) {
    for (const std::size_t beams : {1, 3}) {
      for (const auto& [rule, temperature] :
           {std::pair(Rule::kMaximal, 0.0), std::pair(Rule::kMatch, 1.0),
            std::pair(Rule::kMatch, 0.4), std::pair(Rule::kMatch, 2.5)}) {
        // Of the whole head 64 tokens are kept: what the others have at other temperatures is
        // estimated.
        if (!reduced && temperature != 0.0 && temperature != 1.0) continue;
        const auto m = method(reduced);
        m->options.search.beams = beams;
        m->options.search.mass = 0.15;  // of laws that are nearly flat
        DiffuSpecDrafter drafter(m);
        for (Token salt = 0; salt < 8; ++salt) {
          const std::vector<Token> text =
              text_of(13 + 2 * static_cast<std::size_t>(salt), salt * 9);
          TokenSequence sequence =
              sequence_of(text, static_cast<std::uint32_t>(salt), temperature, rule);
          const at::Tensor laws = laws_of(*m, text, kBlock, temperature == 0.0 ? 1.0 : temperature);
          const std::vector<Token> best = searched(*m, text, laws).front().tokens;
          const auto drafts = proposed(drafter, {&sequence}, {6});
          EXPECT_EQ(drafts[0].tokens, std::vector<Token>(best.begin(), best.begin() + 6))
              << reduced << ' ' << beams << ' ' << temperature << ' ' << salt;
          EXPECT_EQ(drafts[0].origin, Origin::kSearched);
          for (std::size_t i = 0; i < 6; ++i, ++checked) {
            differ += best[i] != likeliest_of(*m, laws, i, 1)[0].token ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(differ, checked / 20);  // the search does something
}

// The path of a text ends with a token that ends it, however many drafts are asked for.
TEST(DiffuSpecDrafts, EndWithATokenThatEndsTheText) {
  const auto m = method();
  std::size_t ended = 0;
  for (Token salt = 0; salt < 8; ++salt) {
    const std::vector<Token> text = text_of(15, salt * 9);
    const at::Tensor laws = laws_of(*m, text, kBlock);
    m->end = {};
    m->end = {searched(*m, text, laws).front().tokens[2]};
    const std::vector<Token> best = searched(*m, text, laws).front().tokens;
    TokenSequence sequence = sequence_of(text, static_cast<std::uint32_t>(salt));
    DiffuSpecDrafter drafter(m);
    EXPECT_EQ(proposed(drafter, {&sequence}, {kBlock})[0].tokens, best);
    ended += best.size() < kBlock ? 1 : 0;
  }
  EXPECT_GT(ended, 0U);
}

// Drafts of the rules that test laws are sampled place by place, of every text from its own laws.
TEST(DiffuSpecDrafts, AreSampledFromTheLawsOfTheirOwnPlaces) {
  for (const bool reduced : {false, true}) {
    const auto m = method(reduced);
    DiffuSpecDrafter drafter(m);
    TokenSequence a = sequence_of(text_of(9, 5), 1, 0.7), b = sequence_of(text_of(12, 60), 2, 0.7),
                  c = sequence_of(text_of(4, 90), 3, 0.7);
    const std::vector<TokenSequence*> texts = {&a, &b, &c};
    const std::vector<std::size_t> lengths = {5, 0, 50};
    const auto drafts = drafter.propose(texts, lengths);
    for (std::size_t s = 0; s < texts.size(); ++s) {
      const std::size_t length = std::min(lengths[s], kBlock);
      ASSERT_EQ(drafts[s].tokens.size(), length);
      ASSERT_EQ(drafts[s].laws.size(), length);
      EXPECT_EQ(drafts[s].origin, Origin::kSampled);
      const at::Tensor laws = laws_of(*m, texts[s]->tokens(), kBlock, 0.7).exp();
      for (std::size_t k = 0; k < length; ++k) {
        const Categorical& law = drafts[s].laws[k];
        double sum = 0.0;
        for (std::int64_t i = 0; i < laws.size(1); ++i) {
          const double p = law.prob(m->network.token(i));
          EXPECT_NEAR(p, laws[static_cast<std::int64_t>(k)][i].item<double>(), 1e-6);
          sum += p;
        }
        EXPECT_NEAR(sum, 1.0, 1e-6);
        const RngKey key = texts[s]->key_at(texts[s]->tokens().size() + k);
        EXPECT_EQ(drafts[s].tokens[k], law.sample(key.uniform(Purpose::kDraft)));
      }
    }
    // The laws of the next round stand where these do.
    const auto next = drafter.propose(texts, lengths);
    EXPECT_EQ(next[0].laws[0].log_weights().data(), drafts[0].laws[0].log_weights().data());
  }
}

// The published ratio has no use for a token that the sampling forbids, nor for what follows it.
TEST(DiffuSpecDrafts, OfThePublishedRatioEndBeforeATokenThatTheSamplingForbids) {
  const auto m = method();
  DiffuSpecDrafter drafter(m);
  std::size_t gaps = 0;
  for (Token salt = 0; salt < 12; ++salt) {
    const std::vector<Token> text = text_of(15, salt * 9);
    TokenSequence sequence(
        7, static_cast<std::uint32_t>(salt), text, 40, {},
        {.sampling = {.temperature = 1.0, .top_k = 1}, .rule = Rule::kRatioOnSearch});
    const at::Tensor laws = laws_of(*m, text, kBlock);
    const std::vector<Token> best = searched(*m, text, laws).front().tokens;
    std::size_t allowed = 0, later = 0;
    const auto top = [&](std::size_t i) {
      return best[i] == likeliest_of(*m, laws, i, 1)[0].token;
    };
    while (allowed < best.size() && top(allowed)) ++allowed;
    for (std::size_t i = allowed; i < best.size(); ++i) later += top(i) ? 1 : 0;
    gaps += later > 0 ? 1 : 0;
    const auto drafts = proposed(drafter, {&sequence}, {kBlock});
    EXPECT_EQ(
        drafts[0].tokens,
        std::vector<Token>(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(allowed)));
    EXPECT_EQ(drafts[0].laws.size(), allowed);
  }
  EXPECT_GT(gaps, 0U);
}

TEST(DiffuSpecDrafts, ArePlannedUpToTheBlockAndReadTheirContext) {
  const auto m = method();
  m->options.context = 40;
  const DiffuSpecDrafter drafter(m);
  const auto context = static_cast<std::size_t>(m->network.context());
  TokenSequence some = sequence_of(text_of(9, 5), 1), full = sequence_of(text_of(context, 0), 2);
  const std::vector<TokenSequence*> texts = {&some, &some, &full};
  const std::vector<std::size_t> most = {3, 50, 50};
  const auto plans = drafter.plan(texts, most, DraftLength());
  EXPECT_EQ(plans[0].limit, 3U);
  EXPECT_EQ(plans[1].limit, kBlock);
  EXPECT_EQ(plans[1].unread, 0U);
  EXPECT_EQ(plans[2].limit, kBlock);  // its context would end: it begins with the last tokens
  EXPECT_EQ(plans[2].unread, 40U);
}

}  // namespace
}  // namespace forerun
