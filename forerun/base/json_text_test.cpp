#include "forerun/base/json_text.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

using nlohmann::json;

std::string message_of(std::string_view text, const JsonLimits& limits = {}) {
  const Result<json> parsed = parse_json(text, limits);
  return parsed ? "parsed" : parsed.error().message;
}

void expect_starts(const std::string& message, std::string_view start) {
  EXPECT_EQ(message.substr(0, start.size()), start);
}

TEST(JsonText, GivesWhatTheLibraryGives) {
  constexpr std::string_view kText =
      R"({"a":[1,-2,3.5,true,null,"x\u00e9\ud83d\ude00",[]],"b":{"c":{},"a":18446744073709551615},"":0})";
  EXPECT_EQ(*parse_json(kText), json::parse(kText));
  EXPECT_EQ(*parse_json("7"), json(7));
  EXPECT_EQ(*parse_json("\xef\xbb\xbf[1]"), json::parse("[1]"));
}

TEST(JsonText, ErrorsGiveThePositionOfASyntaxError) {
  expect_starts(message_of("{\n\"a\": ]"), "not valid JSON: parse error at line 2, column 6");
  expect_starts(message_of(""), "not valid JSON: the text is empty");
  expect_starts(message_of("[1] x"), "not valid JSON: parse error at line 1, column 5");
  expect_starts(message_of("[1"), "not valid JSON: parse error at line 1, column 3");
}

TEST(JsonText, RefusesNanAndInfinity) {
  expect_starts(message_of(R"({"a": NaN})"), "not valid JSON");
  expect_starts(message_of("[Infinity]"), "not valid JSON");
  EXPECT_NE(message_of("[1e999]").find("number overflow"), std::string::npos);
}

TEST(JsonText, RefusesInvalidUtf8InPrintableWords) {
  for (const char* text : {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\""}) {
    const std::string message = message_of(text);
    EXPECT_NE(message.find("UTF-8"), std::string::npos) << message;
    for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~');
  }
  expect_starts(message_of(R"("\ud800")"), "not valid JSON");  // half a surrogate pair
}

TEST(JsonText, RefusesDepthBeyondTheLimit) {
  EXPECT_EQ(message_of("[[[]]]", {.depth = 3}), "parsed");
  expect_starts(message_of("[[[]]]", {.depth = 2}), "objects and arrays nested deeper than 2");
  expect_starts(message_of(R"({"a":{"a":[]}})", {.depth = 2}),
                "objects and arrays nested deeper than 2");
  expect_starts(message_of(std::string(10'000'000, '[')), "objects and arrays nested deeper");
  EXPECT_EQ(message_of("[[],[],[]]", {.depth = 2}), "parsed");  // depth, not count
}

TEST(JsonText, RefusesMoreValuesThanTheLimit) {
  EXPECT_EQ(message_of("[[],{},1]", {.values = 4}), "parsed");
  for (const char* text : {"[[],{},1]", "[1,2,3]", R"({"a":[],"b":[],"c":{}})", "[[[[]]]]"}) {
    expect_starts(message_of(text, {.values = 3}), "more than 3 values");
  }
  std::string bomb = "[";  // 12 MB that took 0.3 GB
  for (int i = 0; i < 4'000'000; ++i) bomb += "[],";
  expect_starts(message_of(bomb + "1]"), "more than 4000000 values");
}

TEST(JsonText, RefusesAKeyGivenTwice) {
  EXPECT_EQ(message_of(R"({"a":1,"b":2,"a":3})"),
            "key 'a' occurs twice in one object; keep one of them");
  EXPECT_EQ(message_of(R"([{"a":1},{"a":{"a":2}}])"), "parsed");
}

TEST(JsonText, RefusesGiantText) {
  expect_starts(message_of(std::string(kMaxJsonBytes + 1, ' ')), "268435457 bytes of JSON");
}

TEST(JsonField, GivesValuesOfTheRequestedType) {
  const json o = json::parse(R"({"i":-5,"w":1024.0,"d":0.5,"b":true,"s":"x","n":null})");
  EXPECT_EQ(*json_field<std::int64_t>(o, "i"), -5);
  EXPECT_EQ(*json_field<std::int64_t>(o, "w"), 1024);
  EXPECT_EQ(*json_field<double>(o, "d"), 0.5);
  EXPECT_EQ(*json_field<double>(o, "i"), -5.0);
  EXPECT_EQ(*json_field<bool>(o, "b"), true);
  EXPECT_EQ(*json_field<std::string>(o, "s"), "x");
  EXPECT_EQ(*json_field_or<std::int64_t>(o, "none", 9), 9);
  EXPECT_EQ(*json_field_or<std::int64_t>(o, "n", 9), 9);
}

TEST(JsonField, NamesTheKeyAndTheTypeFound) {
  const json o =
      json::parse(R"({"s":"x","d":0.5,"big":18446744073709551615,"huge":1e300,"n":null})");
  EXPECT_EQ(json_field<std::int64_t>(o, "none").error().message, "'none' is missing");
  EXPECT_EQ(json_field<std::int64_t>(o, "s").error().message,
            "'s' is string, expected a whole number");
  EXPECT_EQ(json_field<std::int64_t>(o, "d").error().message,
            "'d' is 0.5, expected a whole number");
  EXPECT_EQ(json_field<std::int64_t>(o, "big").error().message,
            "'big' is 18446744073709551615, more than a 64-bit integer holds");
  EXPECT_FALSE(json_field<std::int64_t>(o, "huge"));
  EXPECT_EQ(json_field<double>(o, "s").error().message, "'s' is string, expected a number");
  EXPECT_EQ(json_field<bool>(o, "d").error().message, "'d' is number, expected true or false");
  EXPECT_EQ(json_field<std::string>(o, "n").error().message, "'n' is null, expected a string");
  EXPECT_EQ(json_field_or<bool>(o, "s", true).error().message,
            "'s' is string, expected true or false");
  EXPECT_EQ(json_field<bool>(json::array(), "k").error().message,
            "'k' was looked for in a JSON array, expected an object");
}

}  // namespace
}  // namespace forerun
