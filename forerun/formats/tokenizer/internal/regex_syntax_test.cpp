#include "forerun/formats/tokenizer/internal/regex_syntax.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "forerun/base/utf8.h"
#include "forerun/formats/tokenizer/internal/regex.h"
#include "tests/support/tokenizer_values.h"

namespace forerun::internal {
namespace {

TEST(RegexSyntax, EveryCodePointIsInTheClassesOfTheReference) {
  const nlohmann::json classes = testing::tokenizer_values("classes.json");
  const std::pair<const char*, std::string> named[] = {
      {"space", *translate_regex(R"(\s)")},
      {"letter", *translate_regex(R"(\p{L})")},
      {"number", *translate_regex(R"(\p{N})")},
      {"upper", *translate_regex(R"(\p{Lu})")},
      {"lower", *translate_regex(R"([\p{Ll}])")},
      {"title", *translate_regex(R"(\p{Lt})")},
      {"modifier", *translate_regex(R"(\p{Lm})")},
      {"other_letter", *translate_regex(R"(\p{Lo})")},
      {"mark", *translate_regex(R"(\p{M})")},
      {"punctuation", *translate_regex(R"([\p{P}])")},
      {"symbol", *translate_regex(R"(\p{S})")},
      {"numeric", fmt::format("[{}]", kNumericRanges)}};
  for (const auto& [name, pattern] : named) {
    const Regex regex = *Regex::compile(pattern);
    std::size_t range = 0;
    const nlohmann::json& ranges = classes[name];
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c == 0xD800) c = 0xE000;
      while (range < ranges.size() && ranges[range][1].get<char32_t>() < c) ++range;
      const bool want = range < ranges.size() && ranges[range][0].get<char32_t>() <= c;
      ASSERT_EQ(!regex.matches(to_utf8(c)).empty(), want)
          << name << " U+" << std::hex << static_cast<unsigned>(c);
    }
  }
}

TEST(RegexSyntax, ComplementInsideAClassIsTheComplement) {
  const Regex outside = *Regex::compile(*translate_regex(R"(\S)"));
  const Regex inside = *Regex::compile(*translate_regex(R"([\S])"));
  for (char32_t c = 0; c < 0x3100; ++c) {
    ASSERT_EQ(outside.matches(to_utf8(c)).size(), inside.matches(to_utf8(c)).size())
        << static_cast<unsigned>(c);
  }
}

TEST(RegexSyntax, ConstructsOnWhichEnginesDifferAreRefused) {
  for (const char* pattern :
       {R"(\w+)", R"(\bx)",      R"(\d)",   R"(\h)",   R"(\X)",      R"(\1)",     ".",
        "^a",     "a$",          "(?<n>a)", "(?<!a)b", "(?i)a",      "(*UTF)a",   "a{1,3}+",
        "[a&&b]", "[[:alpha:]]", "[[a]b]",  "[]a]",    R"([\P{L}])", R"(\p{Nd})", "[a",
        R"(a\)",  "{",           "a}",      R"(\p{)"}) {
    const Result<std::string> out = translate_regex(pattern);
    EXPECT_FALSE(out) << pattern;
  }
  EXPECT_FALSE(translate_regex(std::string(5000, 'a')));
  EXPECT_FALSE(Regex::compile("(a"));
  EXPECT_FALSE(Regex::compile("a*"));  // may match nothing
}

TEST(Regex, GivesUpInsteadOfHanging) {
  const Regex regex = *Regex::compile("(a|aa)+[bc]");
  EXPECT_THROW(regex.matches(std::string(5000, 'a')), std::runtime_error);
}

}  // namespace
}  // namespace forerun::internal
