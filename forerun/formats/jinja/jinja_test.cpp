#include "forerun/formats/jinja/jinja.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace forerun {
namespace {

using Json = nlohmann::ordered_json;

std::string file(const std::string& name) {
  std::ifstream in(FORERUN_SOURCE_DIR "/tests/data/jinja/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string rendered(const std::string& text, const Json& context = Json::object()) {
  const auto parsed = JinjaTemplate::parse(text);
  if (!parsed) return "error: " + parsed.error().message;
  const auto out = parsed->render(context, Json::object(),
                                  {.limits = {.steps = 100'000, .bytes = 1 << 20}, .now = {}});
  return out ? out->text : "error: " + out.error().message;
}

// The rendering with what was given to the template in brackets.
std::string marked(const std::string& text, const Json& given, const Json& own = Json::object()) {
  const auto out = JinjaTemplate::parse(text)->render(given, own);
  if (!out) return "error: " + out.error().message;
  std::string shown = out->text;
  for (auto r = out->plain.rbegin(); r != out->plain.rend(); ++r) {
    shown.insert(r->end, "]").insert(r->begin, "[");
  }
  return shown;
}

// Thirteen templates in the manner of well-known models, 24 chats with and without tools.
TEST(Jinja, RendersChatsAsJinja2Does) {
  const Json expected = Json::parse(file("expected.json"));
  int same = 0, refused = 0;
  for (const Json& r : expected["renderings"]) {
    const std::string name = r["template"];
    const auto parsed = JinjaTemplate::parse(file(name));
    ASSERT_TRUE(parsed) << name << parsed.error().message;
    const auto out =
        parsed->render(expected["contexts"][r["context"].get<std::size_t>()], Json::object());
    EXPECT_EQ(static_cast<bool>(out), r.contains("text")) << name << r["context"];
    if (!r.contains("text")) {
      ++refused;
    } else if (out) {
      EXPECT_EQ(out->text, r["text"].get<std::string>()) << name << r["context"];
      ++same;
    }
  }
  EXPECT_EQ(same + refused, 360);
  EXPECT_GT(refused, 20);
}

TEST(Jinja, HasNoBombs) {
  for (const char* text :
       {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% set ns=namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}"
        "{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns=namespace(x=1) %}{% for i in range(5000) %}{% set ns.x=[ns.x] %}{% endfor %}",
        "{% set ns=namespace() %}{% set ns.x=[ns] %}{{ ns }}",
        "{{ 'a' * 100000000 }}",
        "{{ range(10**9) }}",
        "{{ 999999999999999999 * 999 }}",
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{% if %}",
        "{{ x.y }}",
        "{{ raise_exception('no') }}",
        "{% include 'a' %}",
        "{{ x|none }}",
        "{{ 'abc",
        "{% for x in y",
        "{{ [1, 2 }}",
        "{% endif %}",
        "{% break %}",
        "{% filter upper %}a",
        "{% filter nothing %}a{% endfilter %}",
        "{% filter upper %}{{ raise_exception('no') }}{% endfilter %}",
        "{{ none|list }}",
        "{{ none|join(',') }}",
        "{{ none|sort }}",
        "{{ none|unique|list }}",
        "{{ none|first }}",
        "{{ 7|selectattr('x')|list }}",
        "{% set ns=namespace() %}{{ ns|items }}",
        "{% set ns=namespace(x=1) %}{% for i in range(50000) %}"
        "{% set ns.x={'a': ns.x}.items %}{% endfor %}",
        "{% set ns=namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x=[ns.x, ns.x] %}"
        "{% endfor %}",
        "{% set x='\\n' * 1000000 %}{{ x|indent(100) }}",
        "{{ range(99999)|list|join('a' * 100000) }}",
        "{{ range(-9000000000000000000 + 1, 9000000000000000000, 9000000000000000000)|length * 'a' "
        "* -1"
        " + 1 }}",
        "{{ (0 - 999999999999999999 * 9 - 223372036854775817)|abs - 1 + 'a' }}",
        "{% macro f() %}{% if 1 %}{% if 1 %}{% if 1 %}{{ f() }}{% endif %}{% endif %}{% endif %}"
        "{% endmacro %}{{ f() }}",
        "{% set x=range(99999)|list %}{% for i in range(9999) %}{{ x == x }}{% endfor %}",
        "{#"}) {
    EXPECT_TRUE(rendered(text).starts_with("error: ")) << text << rendered(text).substr(0, 100);
  }
  std::string maps = "{{ 'a'|map('map'";
  for (int i = 0; i < 50'000; ++i) maps += ", 'map'";
  EXPECT_TRUE(rendered(maps + ")|list }}").starts_with("error: "));
  std::string keys = "{{ {";
  for (int i = 0; i < 30'000; ++i) keys += std::to_string(i) + ": 1, ";
  EXPECT_TRUE(rendered(keys + "} }}").starts_with("error: "));
  for (const char* part : {"(", "+1", "|trim", "[0]", ".a", "not ", "-", "{", "if 1 else "}) {
    std::string deep = "{{ 1";
    for (int i = 0; i < 100'000; ++i) deep += part;
    EXPECT_TRUE(rendered(deep + " }}").starts_with("error: ")) << part;
    deep = "{{ ";
    for (int i = 0; i < 100'000; ++i) deep += part;
    EXPECT_TRUE(rendered(deep + "1 }}").starts_with("error: ")) << part;
  }
}

TEST(Jinja, ADateIsThereIfItIsGiven) {
  const auto parsed = JinjaTemplate::parse(
      "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}none{% endif %}");
  ASSERT_TRUE(parsed);
  const Json none = Json::object();
  EXPECT_EQ(parsed->render(none, none, {.limits = {}, .now = 1721952000})->text, "26 Jul 2024");
  EXPECT_EQ(parsed->render(none, none)->text, "none");
}

TEST(Jinja, KnowsWhatItWasGivenWhateverTheTemplateDoesWithIt) {
  const Json given = {
      {"x", " <b>\n"}, {"m", {{"role", "user"}, {"k<", "v\"e"}}}, {"odd", {{"role", "a|>"}}}};
  const std::pair<const char*, const char*> cases[] = {
      {"<b>{{ x }}<b>", "<b>[ <b>\n]<b>"},
      {"{{ '<' + x|trim + '>' }}", "<[<b>]>"},
      {"{{ x.strip()[1:] ~ 'b' }}", "[b>]b"},
      {"{{ x|replace('b', 'i')|upper }}", "[ <]I[>\n]"},
      {"{{ x.split('b')|join('|') }}", "[ <]|[>\n]"},
      {"{{ m|tojson }}", "{\"[role]\": \"user\", \"[k<]\": \"[v]\\\"[e]\"}"},
      {"{{ m }}", "{'[role]': 'user', '[k<]': '[v\"e]'}"},
      {"{% for c in x.strip() %}{{ c }}{% endfor %}", "[<b>]"},
      {"{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", "[role]=user;[k<]=[v\"e];"},
      {"{% set y %}({{ x }}){% endset %}{% macro f(a) %}{{ a|indent(2) }}{% endmacro %}{{ f(y) }}",
       "([ <b>\n]  )"},
      {"{{ x|reverse }}{{ x|trim|list }}", "[\n>b< ]['[<]', '[b]', '[>]']"},
      {"{{ '<|' + m.role + '|>' }}{{ '<|' + odd.role + '|>' }}", "<|user|><|[a|>]|>"},
      {"{{ x|length }}{{ x == ' <b>\\n' }}{{ '<b>' in x }}{{ own }}", "5TrueTrue<b>"},
      {"{{ x|trim * 2 }}", "[<b><b>]"},
  };
  for (const auto& [text, want] : cases)
    EXPECT_EQ(marked(text, given, {{"own", "<b>"}}), want) << text;
}

// As Jinja2 3.1 gives them.
TEST(Jinja, FiltersThatChooseTakeNoneForNothing) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ none|selectattr('x', 'equalto', 1)|list }}{{ x|rejectattr('x')|list }}", "[][]"},
      {"{{ none|select|list|length }}{{ 0|reject('odd')|list }}{{ false|map('upper')|list }}",
       "0[][]"},
      {"{{ none|select('no such test')|list }}{{ ''|map(attribute='a')|join }}", "[]"},
      {"{{ {'a': 1}|select|list }}{{ 'ab'|map('upper')|list }}", "['a']['A', 'B']"},
  };
  for (const auto& [text, want] : cases) EXPECT_EQ(rendered(text), want) << text;
}

TEST(Jinja, FilterBlocksFilterTheirText) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% filter upper %}a{{ 'b' }}{% endfilter %}c", "ABc"},
      {"{% filter trim|replace('b', 'x') %} ab {% endfilter %}|", "ax|"},
      {"{% set y = 1 %}{% filter indent(2, true) %}{% set y = 2 %}{{ y }}\n{{ y }}{% endfilter %}"
       "{{ y }}",
       "  2\n  21"},
      {"{% for i in range(4) %}{% filter upper %}a{% if i == 2 %}{% break %}{% endif %}b"
       "{% endfilter %}{% endfor %}",
       "ABAB"},
      {"{%- filter trim -%}\n a {%- filter upper %} b{% endfilter %}{% endfilter %}", "a B"},
  };
  for (const auto& [text, want] : cases) EXPECT_EQ(rendered(text), want) << text;
  EXPECT_EQ(marked("{% filter upper %}<{{ x }}>{% endfilter %}", {{"x", "a"}}), "<[A]>");
}

TEST(Jinja, NumbersAndTextsAreThoseOfPython) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'abcd'[::-1] }}{{ 'abcd'[-3:-1] }}{{ [1,2,3][:-1:-1] }}{{ [1,2][::-1] }}",
       "dcbabc[][2, 1]"},
      {"{{ 'éàü'[1:] }}{{ 'éàü'[-1] }}{{ 'éàü'|length }}", "àüü3"},
      {"{{ ' 12 '|int }}{{ '12a'|int }}{{ '3.9'|int }}{{ 'x'|int(7) }}{{ '1.5'|float }}",
       "120371.5"},
      {"{{ -7 // 2 }}{{ -7 % 2 }}{{ 7 / 2 }}{{ 2 ** 10 }}", "-413.51024"},
      {"{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a  b '.split() }}{{ 'a b c'.split(none, 1) }}",
       "['a,b', 'c']['a', 'b']['a', 'b c']"},
      {"{{ 'xay'.strip('xy') }}{{ 'prefix'.removeprefix('pre') }}", "afix"},
      {"{{ {'a': 1.0, 'b': [none, true]}|tojson(indent=1) }}",
       "{\n \"a\": 1.0,\n \"b\": [\n  null,\n  true\n ]\n}"},
      {"{{ '\\x01\\t\\\"'|tojson }}", "\"\\u0001\\t\\\"\""},
  };
  for (const auto& [text, want] : cases) EXPECT_EQ(rendered(text), want) << text;
}

}  // namespace
}  // namespace forerun
