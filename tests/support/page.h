#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace forerun::testing {

inline bool has(std::string_view page, std::string_view part) {
  return page.find(part) != page.npos;
}

inline std::size_t occurrences(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The text of a page's data element, ended as in a browser.
inline std::string_view raw_data(std::string_view page) {
  constexpr std::string_view kTag = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(kTag) + kTag.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

/// The output of a page's script, after a check of the page: it is complete, its data is one JSON
/// text without markup, and it allows only its own script and styles.
inline nlohmann::json data_of(std::string_view page) {
  EXPECT_EQ(page.substr(0, 15), "<!DOCTYPE html>");
  EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
  for (const char* tag : {"<script", "</script>"}) EXPECT_EQ(occurrences(page, tag), 2U) << tag;
  EXPECT_TRUE(has(page,
                  "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
                  "script-src 'sha256-"));
  for (const char* part : {"@data@", "@hash@", "@common", "@import", "url(", " src=", "fetch("}) {
    EXPECT_FALSE(has(page, part)) << part;
  }
  const std::string_view data = raw_data(page);
  EXPECT_FALSE(has(data, "<"));
  EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  return nlohmann::json::parse(data);
}

// Hostile text: ends its element, opens a comment, ends a script line, is cut within a character.
inline const std::string kHostile =
    "</script><!--<script>alert('x')</script>\"&\\\x01\xE2\x80\xA8\xff\xE2\x82";
inline const std::string kHostileShown =
    "</script><!--<script>alert('x')</script>\"&\\\x01\u2028\uFFFD\uFFFD";

}  // namespace forerun::testing
