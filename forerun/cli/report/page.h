#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace forerun::cli::report {

// The templates beside this file, with common.css and common.js inside: templates.cmake.
extern const std::string_view kBenchPage, kTrainingPage, kImageTracePage, kTextTracePage,
    kTokenTracePage, kDiffusionTracePage;

/// The value of `key`; null if there is none, or `object` is no object.
nlohmann::json field(const nlohmann::json& object, const char* key);
/// Nothing if it is no finite number.
std::optional<double> number(const nlohmann::json& value);

/// `page` with `data` for its script to draw. No text of `data` can end the element it stands in;
/// invalid UTF-8 becomes U+FFFD, and numbers that are not finite become null.
std::string fill(std::string_view page, const nlohmann::json& data);

}  // namespace forerun::cli::report
