#include "forerun/methods/diffuspec/path_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "forerun/core/online_ngram.h"

namespace forerun {
namespace {

constexpr Token kVocab = 6, kEnd = 5;

bool ends(Token token) { return token == kEnd; }
bool never(Token) { return false; }

// Places with random laws over the whole vocabulary.
std::vector<Place> random_places(std::size_t n, std::mt19937& random) {
  std::uniform_real_distribution<double> unit(0.05, 1.0);
  std::vector<Place> out(n);
  for (Place& place : out) {
    double sum = 0.0;
    for (Token t = 0; t < kVocab; ++t) {
      place.push_back({t, unit(random)});
      sum += place.back().log_q;
    }
    for (PlaceToken& candidate : place) candidate.log_q = std::log(candidate.log_q / sum);
    std::sort(place.begin(), place.end(),
              [](const PlaceToken& a, const PlaceToken& b) { return a.log_q > b.log_q; });
  }
  return out;
}

OnlineNgram law_of(std::span<const Token> text) {
  OnlineNgram law(kVocab);
  law.read(text);
  return law;
}

const std::vector<Token> kText = {0, 1, 2, 0, 1, 3, 0, 1, 2, 5, 4, 0, 1};

// Every path, by recursion over the definition.
void all_paths(std::span<const Place> places, std::vector<Token>& text, double score,
               const NgramLaw& law, const PathSearchOptions& options, std::vector<DraftPath>& out) {
  const std::size_t length = text.size() - kText.size();
  if (length == places.size() || (length > 0 && ends(text.back()))) {
    out.push_back({{text.begin() + static_cast<long>(kText.size()), text.end()}, score});
    return;
  }
  for (const PlaceToken& c : places[length]) {
    const double ngram = law.log_prob(text[text.size() - 2], text.back(), c.token);
    const double w = options.marginal;
    const double more = options.linear
                            ? std::log(w * std::exp(c.log_q) + (1.0 - w) * std::exp(ngram))
                            : w * c.log_q + (1.0 - w) * ngram;
    text.push_back(c.token);
    all_paths(places, text, score + more, law, options, out);
    text.pop_back();
  }
}

TEST(PathSearch, WithAllBeamsFindsTheBestPathsOfAll) {
  std::mt19937 random(1);
  const OnlineNgram law = law_of(kText);
  for (int trial = 0; trial < 8; ++trial) {
    const std::vector<Place> places = random_places(4, random);
    for (const int form : {0, 1, 2, 3}) {
      const bool per_token = form % 2 == 0;
      const PathSearchOptions options{
          .beams = 5000, .marginal = 0.6, .linear = form < 2, .per_token = per_token};
      std::vector<DraftPath> all;
      std::vector<Token> text = kText;
      all_paths(places, text, 0.0, law, options, all);
      const auto worth = [&](const DraftPath& p) {
        return p.score / (per_token ? static_cast<double>(p.tokens.size()) : 1.0);
      };
      std::sort(all.begin(), all.end(),
                [&](const DraftPath& a, const DraftPath& b) { return worth(a) > worth(b); });
      const auto found = search_paths(places, kText, law, ends, options);
      ASSERT_EQ(found.size(), all.size());
      for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(found[i].tokens, all[i].tokens);
        EXPECT_NEAR(found[i].score, all[i].score, 1e-9);
      }
    }
  }
}

TEST(PathSearch, OneBeamTakesTheBestTokenOfEveryPlace) {
  std::mt19937 random(2);
  const OnlineNgram law = law_of(kText);
  const std::vector<Place> places = random_places(6, random);
  const auto found = search_paths(places, kText, law, never, {.beams = 1, .marginal = 1.0});
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].tokens.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(found[0].tokens[i], places[i][0].token);
}

TEST(PathSearch, MoreBeamsFindNoWorsePaths) {
  std::mt19937 random(3);
  const OnlineNgram law = law_of(kText);
  double narrow = 0.0, wide = 0.0;
  for (int trial = 0; trial < 40; ++trial) {
    const std::vector<Place> places = random_places(6, random);
    narrow += search_paths(places, kText, law, never, {.beams = 1})[0].score;
    wide += search_paths(places, kText, law, never, {.beams = 4})[0].score;
  }
  EXPECT_GT(wide, narrow);
}

// The n-gram law changes the path to what the text has said before: what a slot's own law cannot
// know of the token beside it.
TEST(PathSearch, TheNgramLawMakesNeighboursFit) {
  const OnlineNgram law = law_of(std::vector<Token>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0});
  const double half = std::log(0.5), third = std::log(0.45);
  const std::vector<Place> places = {{{1, half}, {3, third}}, {{4, half}, {2, third}}};
  const std::vector<Token> text = {3, 0};
  const auto blind = search_paths(places, text, law, never, {.beams = 1, .marginal = 1.0});
  EXPECT_EQ(blind[0].tokens, (std::vector<Token>{1, 4}));
  EXPECT_EQ(search_paths(places, text, law, never, {})[0].tokens, (std::vector<Token>{1, 2}));
}

TEST(PathSearch, AnEndedPathIsShortAndOthersGoOn) {
  const OnlineNgram law(kVocab);
  const double likely = std::log(0.9), unlikely = std::log(0.1);
  const std::vector<Place> places = {{{kEnd, likely}, {1, unlikely}}, {{2, likely}}, {{3, likely}}};
  const auto found = search_paths(places, kText, law, ends, {.beams = 2, .marginal = 1.0});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].tokens, std::vector<Token>{kEnd});
  EXPECT_EQ(found[1].tokens, (std::vector<Token>{1, 2, 3}));
}

TEST(PathSearch, CutsAPlaceToItsMassAndKeepsTheEnd) {
  Place place;
  for (const double q : {0.5, 0.25, 0.125, 0.0625, 0.05, 0.0125}) {
    place.push_back({static_cast<Token>(place.size()), std::log(q)});
  }
  const auto tokens = [](const Place& p) {
    std::vector<Token> out;
    for (const PlaceToken& c : p) out.push_back(c.token);
    return out;
  };
  Place three = place, two = place, all = place;
  cut_place(three, {.mass = 0.8, .most = 15}, never);
  EXPECT_EQ(tokens(three), (std::vector<Token>{0, 1, 2}));
  cut_place(two, {.mass = 0.8, .most = 2}, ends);
  EXPECT_EQ(tokens(two), (std::vector<Token>{0, 1, kEnd}));
  cut_place(all, {.mass = 1.1, .most = 15}, ends);
  EXPECT_EQ(tokens(all).size(), 6U);
  Place sure = {{3, 0.0}, {1, -20.0}};
  cut_place(sure, {.mass = 1.0}, never);  // one token has all of it
  EXPECT_EQ(tokens(sure), std::vector<Token>{3});
}

TEST(PathSearch, OfEqualPathsTheOneOfLikelierTokensIsFirst) {
  const OnlineNgram law(kVocab);
  const double half = std::log(0.5);
  const std::vector<Place> places = {{{3, half}, {1, half}}, {{4, half}, {0, half}, {2, half}}};
  const auto found = search_paths(places, kText, law, never, {.beams = 4});
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].tokens, (std::vector<Token>{3, 4}));
  EXPECT_EQ(found[1].tokens, (std::vector<Token>{3, 0}));
  EXPECT_EQ(found[2].tokens, (std::vector<Token>{3, 2}));
  EXPECT_EQ(found[3].tokens, (std::vector<Token>{1, 4}));
}

TEST(PathSearch, TokensBeforeAPlaceAreThePathsThenTheTexts) {
  const std::vector<Token> text = {7, 8}, path = {9, 5};
  EXPECT_EQ(token_before(text, path, 1), 5);
  EXPECT_EQ(token_before(text, path, 2), 9);
  EXPECT_EQ(token_before(text, path, 3), 8);
  EXPECT_EQ(token_before(text, path, 4), 7);
  EXPECT_EQ(token_before(text, path, 5), NgramLaw::kNoToken);
  EXPECT_EQ(token_before(text, {}, 1), 8);
}

// Three beams, 0.8 of a place's probability, at most 15 tokens; paths by score a token.
TEST(PathSearch, HasThePapersConstants) {
  const OnlineNgram law(kVocab);
  const std::vector<Place> places = {{{0, -1.0}, {1, -1.5}, {2, -2.0}, {3, -2.5}, {kEnd, -1.25}},
                                     {{4, -1.0}}};
  const auto found = search_paths(places, kText, law, ends, {.linear = false});
  ASSERT_EQ(found.size(), 3U);
  // The law is uniform. By its sum the path of one token would be first.
  EXPECT_EQ(found[0].tokens, (std::vector<Token>{0, 4}));
  EXPECT_NEAR(found[0].score, 0.5 * -2.0 - 0.5 * 2.0 * std::log(6.0), 1e-12);
  Place few = {{0, std::log(0.7)}, {1, std::log(0.12)}, {2, std::log(0.1)}, {3, std::log(0.08)}};
  cut_place(few, {}, never);
  EXPECT_EQ(few.size(), 2U);
  Place many(40, {0, std::log(0.02)});
  cut_place(many, {}, never);
  EXPECT_EQ(many.size(), 15U);
}

TEST(PathSearch, WeightsAreTheExponentialsOfScores) {
  for (const bool linear : {true, false}) {
    for (const double marginal : {0.0, 0.3, 1.0}) {
      PathSearchOptions options;
      options.linear = linear;
      options.marginal = marginal;
      EXPECT_NEAR(path_weight(0.2, 0.05, options),
                  std::exp(path_score(std::log(0.2), std::log(0.05), options)), 1e-12);
    }
  }
}

}  // namespace
}  // namespace forerun
