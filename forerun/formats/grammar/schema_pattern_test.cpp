#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forerun/formats/grammar/json_grammar.h"
#include "tests/support/byte_grammar.h"

namespace forerun {
namespace {

using testing::accepts;
using testing::compiled;

TEST(SchemaPattern, HoldsStringsToAMatch) {
  struct Kept {
    const char* schema;
    std::vector<const char*> good, bad;
  };
  const std::vector<Kept> cases = {
      {R"({"type": "string", "pattern": "^[a-c]+$"})",
       {R"("a")", R"("abcc")"},
       {R"("")", R"("ad")", "a", R"("a)"}},
      {R"({"type": "string", "pattern": "b|^c|d$"})",
       {R"("abba")", R"("ca")", R"("ad")", R"("\n\"b\\")", R"("éb")"},
       {R"("ac")", R"("da")", R"("")", R"("b"")", R"("\b")"}},
      {R"({"type": "string", "pattern": "^[\"\\\\\\n/x]$"})",
       {R"("\"")", R"("\\")", R"("\n")", R"("/")", R"("x")"},
       {R"(""")", R"("\")", R"("n")", "\"\n\""}},
      {R"({"type": "string", "pattern": "^([^a])$"})",
       {R"("b")", R"("\"")", R"("\t")", R"("é")"},
       {R"("a")", R"(""")", R"("bb")"}},
      {R"({"type": "string", "pattern": "^[a-z]*$", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("abc")"},
       {R"("a")", R"("abcd")", R"("AB")"}},
      {R"({"type": "string", "pattern": "^(a|bc)$", "minLength": 1, "maxLength": 2})",
       {R"("a")", R"("bc")"},
       {R"("b")"}},
      {R"({"type": "object", "properties": {"id": {"type": "string", "pattern": "^\\d{2}-x$"}}, "required": ["id"]})",
       {R"({"id": "12-x"})"},
       {R"({"id": "1-x"})"}},
  };
  for (const Kept& c : cases) {
    const auto grammar = compiled(json_schema_grammar(c.schema));
    for (const char* text : c.good) EXPECT_TRUE(accepts(*grammar, text)) << c.schema << text;
    for (const char* text : c.bad) EXPECT_FALSE(accepts(*grammar, text)) << c.schema << text;
  }
}

TEST(SchemaPattern, RefusesWhatItWouldNotKeep) {
  for (const char* schema :
       {R"({"type": "string", "pattern": "(?=a)b"})", R"({"type": "string", "pattern": 5})",
        R"({"type": "string", "pattern": "a", "maxLength": 3})",
        R"({"type": "string", "pattern": "^[0-9]{5}$", "format": "date"})",
        R"({"type": "string", "pattern": "^.{900}$"})",
        R"({"type": "string", "pattern": "^\\x01$"})"}) {
    const Result<std::string> grammar = json_schema_grammar(schema);
    ASSERT_FALSE(grammar) << schema;
    EXPECT_NE(grammar.error().message.find("pattern"), std::string::npos)
        << grammar.error().message;
  }
}

TEST(SchemaPattern, PatternsOfASchemaShareOneBound) {
  const auto of = [](int count, const char* pattern) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += fmt::format(R"({}"p{}": {{"type": "string", "pattern": "{}"}})", i > 0 ? ", " : "", i,
                         pattern);
    }
    return json_schema_grammar(R"({"type": "object", "properties": {)" + all + "}}");
  };
  for (const char* pattern : {"^[a-z]{600}$", "^([A-Z]?){22}$"}) {
    EXPECT_TRUE(of(1, pattern)) << pattern;
    const Result<std::string> grammar = of(6, pattern);
    ASSERT_FALSE(grammar) << pattern;
    EXPECT_NE(grammar.error().message.find("with the schema's others"), std::string::npos)
        << grammar.error().message;
  }
  EXPECT_TRUE(of(30, "^[a-z]+(-[a-z]+)*$"));
  EXPECT_TRUE(of(15, "a"));
}

}  // namespace
}  // namespace forerun
