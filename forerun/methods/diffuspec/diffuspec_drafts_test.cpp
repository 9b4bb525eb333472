// Chains, trees and length controls of DiffuSpec on a tiny network, against their definitions: the
// laws of one pass over the whole text, ranked, cut and searched here.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/methods/diffuspec/diffuspec_drafter.h"
#include "forerun/methods/diffuspec/diffuspec_source.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

constexpr std::size_t kBlock = 8;

// With a head of all tokens, or of every third.
std::shared_ptr<DiffuSpec> method(bool reduced = false) {
  DiffusionLm network = tiny_diffusion("llama_plain", reduced);
  network.config.block = kBlock;
  const std::int64_t vocab = network.config.vocab;
  return std::make_shared<DiffuSpec>(std::move(network), vocab);
}

// Texts that repeat themselves, so that their trigrams say something.
std::vector<Token> text_of(std::size_t n, Token salt) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<Token>((i * i + 3) % 11 + salt));
  return out;
}

TokenSequence sequence_of(std::vector<Token> text, std::uint32_t request, double temperature = 0.0,
                          Rule rule = Rule::kMaximal) {
  return {7,  request, std::move(text),
          40, {},      {.sampling = {.temperature = temperature}, .rule = rule}};
}

// [places, outputs] log-probabilities of one pass over the text.
at::Tensor laws_of(const DiffuSpec& m, std::span<const Token> text,
                   const std::vector<Token>& places, double temperature = 1.0) {
  DiffusionText read = m.network.begin();
  const MaskedSpan span{.text = &read, .tokens = text, .places = places};
  return at::log_softmax(m.network.forward({&span, 1}).to(at::kDouble) / temperature, 1);
}

at::Tensor laws_of(const DiffuSpec& m, std::span<const Token> text, std::size_t n,
                   double temperature = 1.0) {
  return laws_of(m, text, std::vector<Token>(n, kMaskedToken), temperature);
}

// The likeliest tokens of a place, in order.
Place likeliest_of(const DiffuSpec& m, const at::Tensor& laws, std::size_t place,
                   std::size_t most) {
  const auto [values, columns] = laws[static_cast<std::int64_t>(place)].sort(0, true);
  Place out;
  for (std::int64_t i = 0;
       i < std::min<std::int64_t>(static_cast<std::int64_t>(most), values.numel()); ++i) {
    out.push_back({m.network.token(columns[i].item<std::int64_t>()), values[i].item<double>()});
  }
  return out;
}

std::vector<DraftPath> searched(const DiffuSpec& m, std::span<const Token> text,
                                const at::Tensor& laws, std::size_t candidates = 64) {
  OnlineNgram trigrams(m.vocab);
  trigrams.read(text);
  const auto ends = [&](Token t) { return m.ends(t); };
  std::vector<Place> places;
  for (std::size_t i = 0; i < static_cast<std::size_t>(laws.size(0)); ++i) {
    places.push_back(likeliest_of(m, laws, i, candidates));
    cut_place(places.back(), m.options.search, ends);
  }
  return search_paths(places, text, trigrams, ends, m.options.search);
}

std::vector<TokenDraft> proposed(DiffuSpecDrafter& drafter, std::vector<TokenSequence*> texts,
                                 const std::vector<std::size_t>& lengths) {
  return drafter.propose(texts, lengths);
}

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

TEST(DiffuSpecDrafts, ArePlannedUpToTheBlockAndTheContext) {
  const auto m = method();
  const DiffuSpecDrafter drafter(m);
  const auto context = static_cast<std::size_t>(m->network.context());
  TokenSequence some = sequence_of(text_of(9, 5), 1), full = sequence_of(text_of(context, 0), 2);
  const std::vector<TokenSequence*> texts = {&some, &some, &full};
  const std::vector<std::size_t> most = {3, 50, 50};
  const auto plans = drafter.plan(texts, most, DraftLength());
  EXPECT_EQ(plans[0].limit, 3U);
  EXPECT_EQ(plans[1].limit, kBlock);
  EXPECT_EQ(plans[1].unread, 0U);
  EXPECT_EQ(plans[2].limit, 0U);
  EXPECT_EQ(plans[2].unread, context);
}

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

TEST(DiffuSpecTexts, PaperControlFollowsTheDraftsBeforeTheirFirstEnd) {
  const auto m = method();
  m->options.control = PlaceControl::kPaper;
  m->options.least = 2;
  m->options.most = 7;
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  const TokenSequence* const one = &sequence;
  DiffuSpecTexts texts(m);
  DraftWindow window({.least = 2, .most = 7});
  std::set<std::size_t> lengths, generated_of;
  for (std::size_t round = 0; round < 12; ++round) {
    lengths.insert(window.length());
    ASSERT_EQ(texts.places(sequence), window.length()) << round;
    const at::Tensor laws = laws_of(*m, sequence.tokens(), window.length());
    std::vector<Token> drafted;
    for (std::size_t i = 0; i < window.length(); ++i) {
      drafted.push_back(likeliest_of(*m, laws, i, 1)[0].token);
    }
    m->end.clear();
    if (round % 3 != 0) m->end = {drafted[drafted.size() / 2]};
    texts.predict({&one, 1});
    ASSERT_EQ(texts.predicted(1), window.length());
    const auto generated = static_cast<std::size_t>(
        std::find_if(drafted.begin(), drafted.end(), [&](Token t) { return m->ends(t); }) -
        drafted.begin());
    const std::size_t accepted = round % 4 < 2 ? generated : generated / 2;
    generated_of.insert(generated);
    texts.observe(1, accepted);
    window.observe(generated, accepted);
    EXPECT_EQ(texts.predicted(1), 0U);
    sequence.push(static_cast<Token>(20 + round));
  }
  EXPECT_GT(lengths.size(), 2U);
  EXPECT_GT(generated_of.size(), 2U);
}

std::shared_ptr<DiffuSpec> fail_fast(double confidence) {
  const auto m = method();
  m->options.control = PlaceControl::kFailFast;
  m->options.least = 2;
  m->options.most = 8;
  m->options.confidence = confidence;
  return m;
}

std::size_t predicted_of(const std::shared_ptr<DiffuSpec>& m, const std::vector<Token>& text) {
  DiffuSpecTexts texts(m);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  texts.predict({&one, 1});
  return texts.predicted(1);
}

TEST(DiffuSpecTexts, FailFastAddsABlockWhileEveryPredictionIsConfident) {
  const std::vector<Token> text = text_of(9, 4);
  EXPECT_EQ(predicted_of(fail_fast(1.1), text), 2U);
  EXPECT_EQ(predicted_of(fail_fast(0.0), text), 8U);
  const auto uneven = fail_fast(0.0);
  uneven->options.most = 7;
  EXPECT_EQ(predicted_of(uneven, text), 6U);
  // The less confident one of a block decides, be it the first or the second.
  std::size_t first = 0, second = 0;
  for (Token salt = 0; salt < 12; ++salt) {
    const std::vector<Token> other = text_of(9, salt * 3);
    const at::Tensor most = std::get<0>(laws_of(*uneven, other, 2).exp().max(1));
    const double a = most[0].item<double>(), b = most[1].item<double>();
    (a < b ? first : second) += 1;
    EXPECT_EQ(predicted_of(fail_fast((a + b) / 2), other), 2U);
    EXPECT_GT(predicted_of(fail_fast(std::min(a, b) * 0.999), other), 2U);
  }
  EXPECT_GT(first, 0U);
  EXPECT_GT(second, 0U);
}

TEST(DiffuSpecTexts, FailFastPredictsAfterTheLikeliestTokensOfTheBlocksBefore) {
  const auto m = fail_fast(0.0);
  const std::vector<Token> text = text_of(9, 4);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  DiffuSpecTexts texts(m);
  texts.predict({&one, 1});
  ASSERT_EQ(texts.predicted(1), 8U);
  std::vector<Token> given;
  for (std::size_t have = 0; have < 8; have += 2) {
    std::vector<Token> places = given;
    places.resize(have + 2, kMaskedToken);
    const at::Tensor laws = laws_of(*m, text, places);
    for (std::size_t i = have; i < have + 2; ++i) {
      const auto row = texts.logits(1, i);
      const at::Tensor got = at::log_softmax(
          at::tensor(std::vector<float>(row.begin(), row.end())).to(at::kDouble), 0);
      EXPECT_LT((got - laws[static_cast<std::int64_t>(i)]).abs().max().item<double>(), 1e-4) << i;
      given.push_back(likeliest_of(*m, laws, i, 1)[0].token);
    }
  }
}

double difference(const DiffuSpecTexts& texts, SequenceId id, const at::Tensor& laws) {
  double out = 0.0;
  for (std::size_t i = 0; i < texts.predicted(id); ++i) {
    const auto row = texts.logits(id, i);
    const at::Tensor got =
        at::log_softmax(at::tensor(std::vector<float>(row.begin(), row.end())).to(at::kDouble), 0);
    out = std::max(out, (got - laws[static_cast<std::int64_t>(i)]).abs().max().item<double>());
  }
  return out;
}

TEST(DiffuSpecTexts, PredictTheSameFromWhatTheyKeep) {
  const auto m = method();
  DiffuSpecTexts texts(m);
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  const TokenSequence* const one = &sequence;
  for (const std::size_t more : {0, 0, 1, 4}) {  // a round may come to nothing
    for (std::size_t i = 0; i < more; ++i) sequence.push(static_cast<Token>(30 + i));
    texts.predict({&one, 1});
    ASSERT_EQ(texts.predicted(1), kBlock);
    EXPECT_LT(difference(texts, 1, laws_of(*m, sequence.tokens(), kBlock)), 1e-4);
  }
  // Another text that begins like it, and goes on by itself.
  EXPECT_TRUE(texts.share(1, 2, 6));
  std::vector<Token> begun(sequence.tokens().begin(), sequence.tokens().begin() + 6);
  begun.insert(begun.end(), {50, 51, 52, 53, 54, 55, 56, 57, 58});
  const TokenSequence other = sequence_of(begun, 2);
  const TokenSequence* const two = &other;
  texts.predict({&two, 1});
  EXPECT_EQ(texts.predicted(1), 0U);  // not asked for in this round
  ASSERT_EQ(texts.predicted(2), kBlock);
  EXPECT_LT(difference(texts, 2, laws_of(*m, begun, kBlock)), 1e-4);
}

// The proxy is what the text says at the time.
TEST(DiffuSpecTexts, TrigramsAreThoseOfTheWholeText) {
  const auto m = method();
  DiffuSpecTexts texts(m);
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  for (int round = 0; round < 3; ++round) {
    OnlineNgram trigrams(m->vocab);
    trigrams.read(sequence.tokens());
    const NgramLaw& law = texts.law(sequence);
    for (const Token t : sequence.tokens()) {
      EXPECT_EQ(law.log_prob(4, 7, t), trigrams.log_prob(4, 7, t));
    }
    for (const Token t : {4, 7, 70}) sequence.push(t);
  }
}

// Long texts are read in pieces, over rounds that predict nothing.
TEST(DiffuSpecTexts, AreReadInPiecesIfTheyAreLong) {
  const auto m = method();
  DiffuSpecTexts texts(m);
  const std::vector<Token> text = text_of(200, 4);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  EXPECT_EQ(texts.unread(sequence), 200U);
  texts.predict({&one, 1});
  EXPECT_EQ(texts.predicted(1), 0U);
  EXPECT_EQ(texts.unread(sequence), 72U);
  texts.predict({&one, 1});
  EXPECT_EQ(texts.unread(sequence), 0U);
  EXPECT_EQ(texts.prefilled().tokens, 199U);  // the newest token is read with the places
  ASSERT_EQ(texts.predicted(1), kBlock);
  EXPECT_LT(difference(texts, 1, laws_of(*m, text, kBlock)), 1e-3);
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
