// Trees, against the search by its definition.
#include "forerun/methods/diffuspec/diffuspec_source.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "forerun/methods/diffuspec/diffuspec_drafter.h"
#include "tests/support/searched_drafts.h"

namespace forerun {
namespace {

// What the tree has after a node, by the definition: the place's law and the text's trigrams
// together, normalised to what the place gives those candidates; the search's token is first.
struct Ranking {
  std::vector<Token> tokens;
  std::vector<double> p;
};

Ranking ranked(const DiffuSpec& m, std::span<const Token> text, const at::Tensor& laws,
               const std::vector<Token>& path, const std::vector<DraftPath>& paths) {
  std::vector<Token> all(text.begin(), text.end());
  all.insert(all.end(), path.begin(), path.end());
  OnlineNgram trigrams(m.vocab);
  trigrams.read(text);
  Place place = likeliest_of(m, laws, path.size(), 64);
  double before = 0.0, after = 0.0;
  for (PlaceToken& c : place) {
    before += std::exp(c.log_q);
    c.log_q = path_score(c.log_q, trigrams.log_prob(all[all.size() - 2], all.back(), c.token),
                         m.options.search);
    after += std::exp(c.log_q);
  }
  std::stable_sort(place.begin(), place.end(),
                   [](const PlaceToken& a, const PlaceToken& b) { return a.log_q > b.log_q; });
  place.resize(8);
  const auto found = std::find_if(paths.begin(), paths.end(), [&](const DraftPath& p) {
    return p.tokens.size() > path.size() && std::equal(path.begin(), path.end(), p.tokens.begin());
  });
  if (found != paths.end()) {
    const auto at = std::find_if(place.begin(), place.end(), [&](const PlaceToken& c) {
      return c.token == found->tokens[path.size()];
    });
    if (at != place.end()) std::rotate(place.begin(), at, at + 1);
  }
  Ranking out;
  for (const PlaceToken& c : place) {
    out.tokens.push_back(c.token);
    out.p.push_back(std::exp(c.log_q) * before / after);
  }
  return out;
}

std::vector<Token> tokens_of(const std::vector<TreeChild>& children) {
  std::vector<Token> out;
  for (const TreeChild& c : children) out.push_back(c.token);
  return out;
}

std::vector<TreeChild> children_of(DiffuSpecSource& source) {
  std::vector<TreeChild> out;
  source.children(out);
  return out;
}

TEST(DiffuSpecSource, FollowsANodeWithItsPlaceAndTheTrigramsTogether) {
  std::size_t preferred = 0;
  for (const bool reduced : {false, true}) {
    const auto m = method(reduced);
    m->options.search.mass = 0.15;
    DiffuSpecSource source(m);
    const HitRates rates = source.rates();
    for (Token salt = 0; salt < 6; ++salt) {
      const std::vector<Token> text = text_of(16, salt * 9);
      const TokenSequence sequence = sequence_of(text, static_cast<std::uint32_t>(salt));
      const TokenSequence* const one = &sequence;
      source.query({&one, 1});
      ASSERT_TRUE(source.begin(sequence));
      const at::Tensor laws = laws_of(*m, text, kBlock);
      const std::vector<DraftPath> paths = searched(*m, text, laws);
      std::vector<Token> path;
      for (std::size_t depth = 0; depth < 4; ++depth) {
        const std::vector<TreeChild> children = children_of(source);
        const Ranking want = ranked(*m, text, laws, path, paths);
        ASSERT_EQ(tokens_of(children), want.tokens) << reduced << ' ' << salt << ' ' << depth;
        preferred += std::is_sorted(want.p.rbegin(), want.p.rend()) ? 0 : 1;
        // On the path of first choices a cell's prior is 0.9 of the middle of its bin.
        for (std::size_t i = 0; i < children.size(); ++i) {
          EXPECT_NEAR(rates.probability(children[i].cell) / 0.9, want.p[i], 0.5 * want.p[i] + 0.02);
        }
        path.push_back(want.tokens[0]);
        source.add(depth, path.back());
      }
    }
  }
  EXPECT_GT(preferred, 0U);
}

TEST(DiffuSpecSource, HasNothingAfterATokenThatEndsTheText) {
  const auto m = method();
  const std::vector<Token> text = text_of(16, 9);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  DiffuSpecSource source(m);
  source.query({&one, 1});
  ASSERT_TRUE(source.begin(sequence));
  m->end = {children_of(source)[1].token};
  source.add(0, m->end[0]);
  EXPECT_TRUE(children_of(source).empty());
  source.add(0, m->end[0] + 1);
  EXPECT_EQ(children_of(source).size(), 8U);
}

// The share of the search's paths that a first choice agrees with, in four steps: cells that lie
// eight apart.
TEST(DiffuSpecSource, IsAsSureAsTheSearchsPathsAgree) {
  std::set<std::size_t> seen;
  for (const std::size_t beams : {1, 5}) {
    const auto sure = method(), unsure = method();
    for (const auto& m : {sure, unsure}) m->options.search.marginal = 1.0;
    sure->options.search.beams = beams;
    unsure->options.search.beams = 0;
    for (Token salt = 0; salt < 6; ++salt) {
      const std::vector<Token> text = text_of(16, salt * 9);
      const TokenSequence sequence = sequence_of(text, static_cast<std::uint32_t>(salt));
      const TokenSequence* const one = &sequence;
      DiffuSpecSource with(sure), without(unsure);
      with.query({&one, 1});
      without.query({&one, 1});
      ASSERT_TRUE(with.begin(sequence) && without.begin(sequence));
      const std::vector<DraftPath> paths = searched(*sure, text, laws_of(*sure, text, kBlock));
      ASSERT_EQ(paths.size(), beams);
      std::vector<Token> path;
      for (std::size_t depth = 0; depth < kBlock; ++depth) {
        const TreeChild first = children_of(with)[0], plain = children_of(without)[0];
        ASSERT_EQ(first.token, plain.token);
        path.push_back(first.token);
        const auto agree = static_cast<std::size_t>(
            std::count_if(paths.begin(), paths.end(), [&](const DraftPath& p) {
              return std::equal(path.begin(), path.end(), p.tokens.begin());
            }));
        const std::size_t step = std::min<std::size_t>(3, 4 * agree / paths.size());
        EXPECT_EQ(first.cell.cell - plain.cell.cell, 8 * static_cast<int>(step));
        seen.insert(step);
        with.add(depth, first.token);
        without.add(depth, first.token);
      }
    }
  }
  EXPECT_GT(seen.size(), 2U);
}

// Also beyond the candidates that are cut, in trees as in chains.
TEST(DiffuSpecDrafts, KeepTokensThatEndTheTextInTheSearch) {
  const auto m = method();
  m->options.search.most = 1;
  m->options.search.marginal = 0.5;
  std::vector<Token> text;
  at::Tensor laws;
  for (Token end = 20; m->end.empty(); ++end) {  // one that is a candidate, but not the likeliest
    text = {4, 7, end, 4, 7, end, 4, 7};
    laws = laws_of(*m, text, kBlock);
    const Place place = likeliest_of(*m, laws, 0, 60);
    for (std::size_t i = 1; i < place.size(); ++i)
      if (place[i].token == end) m->end = {end};
  }
  const Token end = m->end[0];
  ASSERT_EQ(searched(*m, text, laws).front().tokens, std::vector<Token>{end});
  TokenSequence sequence = sequence_of(text, 1);
  DiffuSpecDrafter drafter(m);
  EXPECT_EQ(proposed(drafter, {&sequence}, {4})[0].tokens, std::vector<Token>{end});
  const TokenSequence* const one = &sequence;
  DiffuSpecSource source(m);
  source.query({&one, 1});
  ASSERT_TRUE(source.begin(sequence));
  EXPECT_EQ(children_of(source)[0].token, end);
}

}  // namespace
}  // namespace forerun
