#include "forerun/base/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "forerun/base/format_error.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using nlohmann::json;
using testing::TempFolder;

TEST(Settings, TheFirstThatDiffersIsNamedWithBothValues) {
  const json stored = {{"seed", 1}, {"temperature", 0.0}, {"further", "is not asked for"}};
  EXPECT_EQ(settings_difference(stored, {{"seed", 1}, {"temperature", 0.0}}), "");
  EXPECT_EQ(settings_difference(stored, {{"seed", 1}, {"temperature", 0.5}}),
            "temperature = 0.0, not 0.5");
  EXPECT_EQ(settings_difference(stored, {{"top_k", 5}}), "no top_k, not 5");
  EXPECT_EQ(settings_difference({{"model", "\x1b[2J"}}, {{"model", "a"}}),
            "model = \"\\u001b[2J\", not \"a\"");
}

TEST(Settings, AreReadAsTheyWereWritten) {
  const TempFolder folder;
  const auto file = folder.path() / "settings.json";
  EXPECT_EQ(load_settings(file), std::nullopt);
  save_settings(file, {{"seed", 7}});
  EXPECT_EQ(load_settings(file), json({{"seed", 7}}));
}

TEST(Settings, WhatIsNoneIsRefused) {
  const TempFolder folder;
  for (const char* text : {"", "[]", "{\"seed\":", "3", "{\"a\":1,\"a\":2}"}) {
    EXPECT_THROW(load_settings(folder.write("settings.json", text)), FormatError) << text;
  }
  EXPECT_THROW(load_settings(folder.path()), FormatError);
}

}  // namespace
}  // namespace forerun
