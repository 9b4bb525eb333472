// The automaton against a search through the whole text.
#include "forerun/methods/sam/suffix_automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace forerun {
namespace {

using Text = std::vector<Token>;

// Ends of the occurrences of `what` in `text`.
std::vector<std::size_t> ends(const Text& text, const Text& what) {
  std::vector<std::size_t> out;
  for (std::size_t end = what.size(); end <= text.size(); ++end) {
    if (std::equal(what.begin(), what.end(),
                   text.begin() + static_cast<std::ptrdiff_t>(end - what.size()))) {
      out.push_back(end);
    }
  }
  return out;
}

Text last(const Text& text, std::size_t n) {
  return {text.end() - static_cast<std::ptrdiff_t>(n), text.end()};
}

// The longest end of `of` that occurs in `text` at least `times` times.
std::size_t longest(const Text& text, const Text& of, std::size_t times) {
  for (std::size_t n = of.size(); n > 0; --n) {
    if (ends(text, last(of, n)).size() >= times) return n;
  }
  return 0;
}

void expect_followers(const SuffixAutomaton& automaton, const SuffixAutomaton::Match& match,
                      const Text& text, const Text& what) {
  std::map<Token, std::uint32_t> expected, found;
  for (const std::size_t end : ends(text, what)) {
    if (end < text.size()) ++expected[text[end]];
  }
  for (const Token token : automaton.followers(match.state)) {
    found[token] = automaton.occurrences(automaton.next(match.state, token));
  }
  EXPECT_EQ(found, expected);
}

TEST(SuffixAutomaton, FindsWhatASearchFinds) {
  std::mt19937 random(11);
  for (const unsigned letters : {2U, 4U, 9U}) {
    SuffixAutomaton automaton;
    Text text;
    for (int i = 0; i < 160; ++i) {
      text.push_back(static_cast<Token>(random() % letters));
      automaton.extend(text);
      const SuffixAutomaton::Match match = automaton.repeated();
      ASSERT_EQ(match.length, longest(text, text, 2));
      if (match.length == 0) continue;
      expect_followers(automaton, match, text, last(text, match.length));
      const SuffixAutomaton::Match less = automaton.shorter(match);
      if (less.length > 0) {
        EXPECT_GT(ends(text, last(text, less.length)).size(),
                  ends(text, last(text, match.length)).size());
        expect_followers(automaton, less, text, last(text, less.length));
      }
    }
  }
}

TEST(SuffixAutomaton, StepsToTheLongestEndThatOccurs) {
  std::mt19937 random(12);
  Text text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<Token>(random() % 3));
  SuffixAutomaton automaton;
  automaton.extend(text);
  SuffixAutomaton::Match match;
  Text path;
  for (int i = 0; i < 300; ++i) {
    path.push_back(static_cast<Token>(random() % 4));  // 3 is not in the text
    match = automaton.step(match, path.back());
    const Text recent = last(path, std::min<std::size_t>(path.size(), 24));
    ASSERT_EQ(match.length, longest(text, recent, 1));
  }
}

TEST(SuffixAutomaton, StaysLinearInALoop) {
  SuffixAutomaton automaton;
  const Text text(20000, 7);
  automaton.extend(text);
  EXPECT_EQ(automaton.repeated().length, text.size() - 1);
  EXPECT_EQ(automaton.step(automaton.repeated(), 7).length, text.size());
}

// In a loop a place ends as many classes as there are tokens before it: the newest are counted.
TEST(SuffixAutomaton, CountsTheNewestClassesOfEveryPlace) {
  constexpr std::size_t kLength = 3 * SuffixAutomaton::kCounted;
  SuffixAutomaton automaton;
  automaton.extend(Text(kLength, 7));
  SuffixAutomaton::State state = SuffixAutomaton::kRoot;
  for (std::size_t length = 1; length <= kLength; ++length) {
    state = automaton.next(state, 7);
    EXPECT_EQ(automaton.occurrences(state),
              std::min(SuffixAutomaton::kCounted, kLength + 1 - length))
        << length;
  }
}

}  // namespace
}  // namespace forerun
