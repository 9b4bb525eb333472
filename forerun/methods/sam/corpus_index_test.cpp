// The index of a corpus against a search through all its documents.
#include "forerun/methods/sam/corpus_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "forerun/methods/sam/context_order.h"

namespace forerun {
namespace {

using Text = std::vector<Token>;
using Counts = std::map<Token, std::uint32_t>;

struct Document {
  Text tokens;
  std::size_t first = 0;
};

using Order = std::vector<std::uint32_t>;

CorpusIndex index_of(const std::vector<Document>& corpus, std::size_t vocab,
                     const Order& order = {}) {
  std::vector<CorpusDocument> documents;
  documents.reserve(corpus.size());
  for (const Document& d : corpus) documents.push_back({d.tokens, d.first});
  return {documents, vocab, order};
}

Order order_of(const CorpusIndex& index) { return {index.order().begin(), index.order().end()}; }

// What followed `end` in the documents.
Counts followed(const std::vector<Document>& corpus, std::span<const Token> end) {
  Counts out;
  for (const Document& d : corpus) {
    for (std::size_t i = std::max(d.first, end.size()); i < d.tokens.size(); ++i) {
      if (std::equal(end.begin(), end.end(),
                     d.tokens.begin() + static_cast<std::ptrdiff_t>(i - end.size()))) {
        ++out[d.tokens[i]];
      }
    }
  }
  return out;
}

std::uint32_t total(const Counts& counts) {
  std::uint32_t out = 0;
  for (const auto& [token, count] : counts) out += count;
  return out;
}

void expect_followers(const CorpusIndex::Followers& found, const Counts& counts) {
  EXPECT_EQ(found.distinct, counts.size());
  ASSERT_EQ(found.size, std::min(counts.size(), CorpusIndex::kFollowers));
  std::vector<std::pair<Token, std::uint32_t>> expected(counts.begin(), counts.end());
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (std::size_t i = 0; i < found.size; ++i) {
    EXPECT_EQ(found.most[i].token, expected[i].first) << i;
    EXPECT_EQ(found.most[i].count, expected[i].second) << i;
  }
}

// Every end of `text`, from the longest: lengths, occurrences, followers. Ends of the same
// occurrences are one match, as long as the longest.
void expect_all_ends(const CorpusIndex& index, const std::vector<Document>& corpus,
                     std::span<const Token> text) {
  CorpusIndex::Match match = index.longest(text);
  std::uint32_t before = 0;
  for (std::size_t n = std::min(text.size(), CorpusIndex::kLongest); n > 0; --n) {
    const Counts counts = followed(corpus, text.last(n));
    const std::uint32_t occurrences = total(counts);
    if (occurrences == before) continue;
    ASSERT_EQ(match.length, n);
    ASSERT_EQ(match.occurrences(), occurrences);
    expect_followers(index.followers(match), counts);
    match = index.shorter(match);
    before = occurrences;
  }
  EXPECT_EQ(match.length, 0U);
  EXPECT_EQ(index.followers(match).size, 0U);
}

Text random_text(std::mt19937& random, std::size_t size, unsigned letters) {
  Text out;
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<Token>(random() % letters));
  return out;
}

TEST(CorpusIndex, FindsWhatASearchFinds) {
  std::mt19937 random(5);
  for (const unsigned letters : {1U, 2U, 4U, 11U, 300U}) {
    for (const std::size_t documents : {1, 2, 9}) {
      std::vector<Document> corpus;
      for (std::size_t d = 0; d < documents; ++d) {
        Text text = random_text(random, random() % 90, letters);
        const std::size_t first = text.empty() ? 0 : random() % (text.size() + 1);
        corpus.push_back({std::move(text), d % 3 == 0 ? 0 : first});
      }
      const CorpusIndex index = index_of(corpus, letters + 1);
      for (int i = 0; i < 60; ++i) {  // texts of the corpus and others, `letters` never in it
        const Document& d = corpus[random() % corpus.size()];
        Text text(d.tokens.begin(),
                  d.tokens.begin() + static_cast<std::ptrdiff_t>(random() % (d.tokens.size() + 1)));
        for (unsigned more = random() % 4; more > 0; --more) {
          text.push_back(static_cast<Token>(random() % (letters + (i % 5 == 0 ? 1 : 0))));
        }
        expect_all_ends(index, corpus, text);
      }
    }
  }
}

// Counts of many followers, kept and counted, on both sides of the size that decides.
TEST(CorpusIndex, CountsTheFollowersOfFrequentEnds) {
  for (const std::size_t occurrences : {CorpusIndex::kScanned - 1, CorpusIndex::kScanned,
                                        CorpusIndex::kScanned + 1, 4 * CorpusIndex::kScanned}) {
    std::vector<Document> corpus(1);
    std::mt19937 random(8);
    for (std::size_t i = 0; i < occurrences; ++i) {
      corpus[0].tokens.insert(corpus[0].tokens.end(), {20, 21, static_cast<Token>(random() % 12)});
    }
    const CorpusIndex index = index_of(corpus, 22);
    expect_all_ends(index, corpus, Text{20, 21});
    expect_all_ends(index, corpus, Text{3, 20, 21});
    EXPECT_EQ(index.longest(Text{21}).occurrences(), occurrences);
  }
}

TEST(CorpusIndex, OfNothingKnowsNothing) {
  const CorpusIndex nothing({}, 5);
  EXPECT_EQ(nothing.size(), 0U);
  EXPECT_EQ(nothing.longest(Text{1, 2}).length, 0U);
  EXPECT_EQ(nothing.shorter({}).length, 0U);
  const std::vector<Document> corpora[] = {
      {{}}, {{{3}}}, {{{1, 2, 3}, 3}}, {{{}}, {{4}}, {{1, 2}, 9}}};
  for (const auto& corpus : corpora) {  // documents without a token that follows something
    const CorpusIndex index = index_of(corpus, 5);
    EXPECT_EQ(index.size(), 0U);
    for (const Token t : {-1, 0, 1, 2, 3, 4, 5, 2147483647, -2147483647 - 1}) {
      EXPECT_EQ(index.longest(Text{t}).length, 0U);
    }
    EXPECT_EQ(index.longest({}).length, 0U);
  }
}

TEST(CorpusIndex, EndsAreOfOneDocument) {
  const std::vector<Document> corpus = {{{1, 2, 3}}, {{4, 1, 2}}, {{2, 3}}};
  const CorpusIndex index = index_of(corpus, 6);
  EXPECT_EQ(index.longest(Text{3}).length, 0U);  // nothing follows the end of a document
  EXPECT_EQ(index.longest(Text{3, 4, 1}).length, 2U);
  EXPECT_EQ(index.longest(Text{9, 1, 2}).length, 2U);
  expect_all_ends(index, corpus, Text{4, 1, 2});
}

// Time and memory stay bounded where everything repeats.
TEST(CorpusIndex, OfOneTokenRepeated) {
  const std::vector<Document> corpus = {{Text(200000, 3)}, {Text(40, 3)}};
  const CorpusIndex index = index_of(corpus, 4);
  const CorpusIndex::Match match = index.longest(Text(100, 3));
  EXPECT_EQ(match.length, CorpusIndex::kLongest);
  EXPECT_EQ(match.occurrences(), 200000 - CorpusIndex::kLongest + 40 - CorpusIndex::kLongest);
  EXPECT_EQ(index.followers(match).distinct, 1U);
  EXPECT_EQ(index.shorter(match).length, CorpusIndex::kLongest - 1);
  EXPECT_EQ(index.longest(Text{1, 3, 3}).occurrences(), 200000U - 2 + 40 - 2);
}

TEST(CorpusIndex, RefusesTokensOutsideTheVocabulary) {
  for (const Token t : {5, -1, -2147483647 - 1}) {
    const std::vector<Document> corpus = {{{1, 2}}, {{4, t}}};
    EXPECT_THROW(index_of(corpus, 5), std::invalid_argument) << t;
  }
}

// Documents of few tokens, of which some are prompts.
std::vector<Document> random_corpus(std::mt19937& random, unsigned letters) {
  std::vector<Document> corpus;
  for (int d = 0; d < 20; ++d) {
    corpus.push_back({random_text(random, random() % 90, letters), random() % 4});
  }
  return corpus;
}

TEST(CorpusIndex, OfAKeptOrderIsTheSame) {
  std::mt19937 random(8);
  for (const unsigned letters : {1U, 2U, 3U, 40U}) {
    const std::vector<Document> corpus = random_corpus(random, letters);
    const CorpusIndex sorted = index_of(corpus, letters);
    const CorpusIndex kept = index_of(corpus, letters, order_of(sorted));
    EXPECT_EQ(order_of(kept), order_of(sorted));
    for (int i = 0; i < 200; ++i) {
      const Text text = random_text(random, 1 + random() % 12, letters);
      for (CorpusIndex::Match a = sorted.longest(text), b = kept.longest(text); a.length > 0;
           a = sorted.shorter(a), b = kept.shorter(b)) {
        ASSERT_EQ(std::tie(a.length, a.first, a.last), std::tie(b.length, b.first, b.last));
        expect_all_ends(kept, corpus, text);
      }
    }
  }
}

// Whatever a damaged file holds: every place once, and each behind the one that is before it.
TEST(CorpusIndex, RefusesAnOrderOfOtherDocuments) {
  std::mt19937 random(9);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const unsigned letters = 2 + random() % 5;
    const std::vector<Document> corpus = random_corpus(random, letters);
    const CorpusIndex index = index_of(corpus, letters);
    const Order right = order_of(index);
    Order wrong = right;
    const std::size_t at = random() % wrong.size(), other = random() % wrong.size();
    switch (i % 5) {
      case 0:
        std::swap(wrong[at], wrong[other]);
        break;
      case 1:
        wrong[at] = wrong[other];
        break;
      case 2:
        wrong[at] = random();
        break;
      case 3:
        wrong.pop_back();
        break;
      default:
        std::shuffle(wrong.begin(), wrong.end(), random);
    }
    try {
      const CorpusIndex taken = index_of(corpus, letters, wrong);
      EXPECT_EQ(taken.size(), index.size());  // the two places end alike
      for (int t = 0; t < 20; ++t) {
        expect_all_ends(taken, corpus, random_text(random, 1 + random() % 12, letters));
      }
    } catch (const std::invalid_argument&) {
      ++refused;
      EXPECT_NE(wrong, right);
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(ContextOrder, SortsByTheTokensBefore) {
  std::mt19937 random(6);
  for (const unsigned letters : {1U, 2U, 3U, 50U}) {
    for (const std::size_t depth : {1, 2, 8, 64}) {
      Text text;
      for (int d = 0; d < 5; ++d) {
        text.push_back(kDocumentStart);
        const Text document = random_text(random, random() % 60, letters);
        text.insert(text.end(), document.begin(), document.end());
      }
      // The last tokens of a place, the newest first; a document start ends them.
      const auto context = [&](std::uint32_t place) {
        Text out;
        for (std::uint32_t i = place; out.size() < depth; --i) {
          out.push_back(text[i]);
          if (text[i] == kDocumentStart) break;
        }
        return out;
      };
      const HugeVector<std::uint32_t> order = context_order(text, letters, depth);
      HugeVector<std::uint32_t> places = order;
      std::sort(places.begin(), places.end());
      for (std::uint32_t i = 0; i < text.size(); ++i) ASSERT_EQ(places[i], i);
      for (std::size_t i = 1; i < order.size(); ++i) {
        EXPECT_LE(context(order[i - 1]), context(order[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace forerun
