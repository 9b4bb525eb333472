#include "forerun/formats/grammar/regex_grammar.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/byte_grammar.h"
#include "tests/support/mutate.h"

namespace forerun {
namespace {

using testing::accepts;
using testing::compiled;

std::string regex_refusal(const std::string& expression) {
  const Result<std::string> ebnf = regex_grammar(expression);
  return ebnf ? "" : ebnf.error().message;
}

// All texts of some letters, up to a length.
std::vector<std::string> texts_of(const std::string& letters, std::size_t longest) {
  std::vector<std::string> out = {""};
  for (std::size_t from = 0, length = 0; length < longest; ++length) {
    const std::size_t end = out.size();
    for (; from < end; ++from) {
      for (const char c : letters) out.push_back(out[from] + c);
    }
  }
  return out;
}

std::string random_regex(testing::SplitMix64& rng, int depth) {
  static const std::vector<std::string> kAtoms = {"a", "b", "[ab]", "[^a]", ".", "\\w", "c"};
  static const std::vector<std::string> kTimes = {"*",    "+",    "?",      "{2}", "{0,2}",
                                                  "{1,}", "{2,}", "{1,3}?", "*?",  "{0}"};
  std::string out;
  for (std::size_t i = rng.below(3) + 1; i > 0; --i) {
    if (depth == 0 || rng.below(2) == 0) {
      out += kAtoms[rng.below(kAtoms.size())];
    } else {
      out += std::string(rng.below(2) == 0 ? "(" : "(?:") + random_regex(rng, depth - 1);
      for (std::size_t more = rng.below(3); more > 0; --more) {
        out += "|" + (rng.below(6) == 0 ? "" : random_regex(rng, depth - 1));
      }
      out += ")";
    }
    if (rng.below(2) == 0) out += kTimes[rng.below(kTimes.size())];
  }
  return out;
}

TEST(RegexGrammar, MatchesTheTextsThatTheStandardLibraryMatches) {
  const std::vector<std::string> texts = texts_of("abc", 4);
  std::size_t matched = 0, all = 0, kept = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    testing::SplitMix64 rng{i};
    const std::string expression = random_regex(rng, 2);
    SCOPED_TRACE(expression);
    if (regex_refusal(expression).find("too large") != std::string::npos) continue;
    ++kept;
    const auto grammar = compiled(regex_grammar(expression));
    const std::regex judge(expression);
    for (const std::string& text : texts) {
      const bool wanted = std::regex_match(text, judge);
      ASSERT_EQ(accepts(*grammar, text), wanted) << '"' << text << '"';
      matched += wanted ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GT(kept, 270U);
  EXPECT_GT(matched, all / 20);
  EXPECT_LT(matched, all / 2);
}

TEST(RegexGrammar, ReadsWhatTheLanguagesHaveInCommon) {
  struct Kept {
    const char* expression;
    std::vector<std::string> good, bad;
  };
  const std::vector<Kept> cases = {
      {"", {""}, {"a"}},
      {"(yes|no)", {"yes", "no"}, {"", "yesno", "y"}},
      {R"(^\d{4}-\d\d?$)", {"2026-1", "2026-12"}, {"26-1", "2026-123", "2026-"}},
      {R"(\A[\w.+-]+@\w+\.com\Z)", {"a.b+c@d.com"}, {"@d.com", "a@dxcom"}},
      {R"({"a": \d+}|\[\])", {R"({"a": 12})", "[]"}, {R"({"a": })"}},
      {R"([^\s"\\]+)", {"a", "\u00e9\u4e2d"}, {"a b", "\"", "\\", "\u00a0"}},
      {".", {"a", "\u00e9", "\U0001F600", "\t"}, {"\n", "\r", "", "ab"}},
      {R"([a-c\-\]x])", {"a", "b", "-", "]", "x"}, {"d", "\\"}},
      {R"([\x41-\u0043\U0001F600])", {"A", "B", "C", "\U0001F600"}, {"D", "x"}},
      {"[\u00e0-\u00ff]{2}", {"\u00e9\u00ff"}, {"\u00e9", "ab"}},
      {R"(\$\.\*\n\t)", {"$.*\n\t"}, {"$."}},
      {R"((?P<year>\d)(?<n>x)(?:y))", {"1xy"}, {"1x"}},
      {"(^a|b)c", {"ac", "bc"}, {"c"}},
      {"a(b$|c)?", {}, {}},
      {"a*?b+?c??", {"b", "aab", "bbc"}, {"a", ""}},
      {"(a|b|)", {"", "a", "b"}, {"ab"}},
      {"[ab]{130,200}",
       {std::string(130, 'a'), std::string(200, 'b')},
       {std::string(129, 'a'), std::string(201, 'a')}},
      {"(ab?){2,}", {"aa", "abab", "aba"}, {"a", "abb"}},
      {"(a|bc*){2,}", {"aa", "abcc", "bcca"}, {"aaca", "aca", "a"}},
      {R"(\D\W\S)", {"a-x", "x.y"}, {"1-a", "aab", "a- "}},
  };
  for (const Kept& c : cases) {
    SCOPED_TRACE(c.expression);
    if (c.good.empty()) {
      EXPECT_NE(regex_refusal(c.expression), "");
      continue;
    }
    const auto grammar = compiled(regex_grammar(c.expression));
    for (const std::string& text : c.good) EXPECT_TRUE(accepts(*grammar, text)) << text;
    for (const std::string& text : c.bad) EXPECT_FALSE(accepts(*grammar, text)) << text;
  }
}

TEST(RegexGrammar, RefusesWhatItWouldNotKeep) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"(?=a)a", "lookahead"},
      {"(?!a)b", "lookahead"},
      {"(?<=a)b", "lookbehind"},
      {"(?<!a)b", "lookbehind"},
      {"(a)\\1", "back-reference"},
      {"(?P<n>a)(?P=n)", "back-reference"},
      {"\\k<n>", "back-ref"},
      {"(?i)a", "flag"},
      {"(?s:.)", "flag"},
      {"\\bword", "boundary"},
      {"\\B", "boundary"},
      {"\\p{L}", "Unicode"},
      {"a++", "possessive"},
      {"a*+", "possessive"},
      {"(?>a)", "atomic"},
      {"(?#x)", "comment"},
      {"(a)?(?(1)b|c)", "condition"},
      {"a**", "two repetitions"},
      {"*a", "repeats nothing"},
      {"a|+", "repeats nothing"},
      {"(a", "without its )"},
      {"a)", "without its ("},
      {"[a", "without its ]"},
      {"[]a]", "write \\]"},
      {"[^]", "write \\]"},
      {"[[:alpha:]]", "POSIX"},
      {"[b-a]", "later character"},
      {"[a-\\d]", "classes"},
      {"a{2,1}", "more to less"},
      {"a{,2}", "{0,"},
      {"a{10000}", "9,999"},
      {"a\\", "backslash"},
      {"\\y", "\\y"},
      {"\\012", "\\0"},
      {"\\x4", "2 hexadecimal"},
      {"\\ud800", "4 hexadecimal"},
      {"a^b", "^ after"},
      {"a$b", "after $"},
      {"(a$)*", "repeats a group"},
      {"^*", "repeats ^"},
      {"[^\\s\\S]", "no character"},
      {"a{9999}", "too large"},
      {"[ -~]{300}", "too large"},
      {"[a-zA-Z ]{1,300}", "too large"},
      {"((a{99}){99}){99}", "too large"},
      {"(a?b?c?d?e?){50}", "too large"},
      {"(.?){60}", "too large"},
      {"(((){9999}){9999}){9999}", "too large"},
      {std::string(9000, 'a'), "bytes"},
      {"\xff", "UTF-8"},
      {std::string(100, '(') + std::string(100, ')'), "too deep"},
      {"(?<1-a>b)", "wrong name"}};
  for (const auto& [expression, says] : cases) {
    EXPECT_NE(regex_refusal(expression).find(says), std::string::npos)
        << expression.substr(0, 40) << ": " << regex_refusal(expression);
    EXPECT_EQ(regex_refusal(expression).find('\n'), std::string::npos);
  }
}

TEST(RegexGrammar, TakesWhatTheDocumentationNames) {
  for (const char* expression : {"[a-z]{1000}", "[ -~]{250}", ".{1,150}"}) {
    EXPECT_EQ(regex_refusal(expression), "") << expression;
  }
}

TEST(RegexGrammar, FollowsReasoning) {
  const auto grammar = compiled(regex_grammar("a+", ReasoningStart::kBefore));
  for (const char* good : {"a", "<think>b b</think>\n\naa"}) EXPECT_TRUE(accepts(*grammar, good));
  for (const char* bad : {"b", "<think>a", "<think>a</think>b"})
    EXPECT_FALSE(accepts(*grammar, bad));
}

TEST(RegexGrammar, DamagedExpressionsAreRefusedOrCompile) {
  std::vector<testing::Bytes> seeds;
  for (const std::string_view seed :
       {R"(^(?:[a-z\d]{2,3}|\x41\u0042?)+[^\s-]*$)", "(a|(b)c){1,4}d*?"}) {
    seeds.push_back(testing::bytes_of(seed));
  }
  std::size_t good = 0;
  testing::for_each_mutant(seeds, [&](const testing::Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<std::string> ebnf = regex_grammar(testing::text_of(mutant));
    if (!ebnf) {
      EXPECT_LT(ebnf.error().message.size(), 300U);
      return;
    }
    ++good;
    if (i % 16 == 0) {
      EXPECT_TRUE(testing::byte_compiler().compile(*ebnf)) << *ebnf;
    }
  });
  EXPECT_GT(good, 100U);
}

}  // namespace
}  // namespace forerun
