#include "forerun/base/settings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forerun/base/atomic_file.h"
#include "forerun/base/json_text.h"
#include "forerun/base/mapped_file.h"
#include "forerun/base/result.h"

namespace forerun {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  constexpr std::size_t kMost = 200;
  const std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

}  // namespace

std::optional<json> load_settings(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return std::nullopt;
  const auto fail = [&](std::string_view why) {
    throw FormatError(
        fmt::format("{}: {}; put back a good copy, or choose another place", file.string(), why));
  };
  const Result<MappedFile> content = MappedFile::open(file);
  if (!content) fail(content.error().message);
  const Result<json> parsed = parse_json(content->text());
  if (!parsed) fail(parsed.error().message);
  if (!parsed->is_object()) fail("holds no settings of forerun");
  return *parsed;
}

void save_settings(const std::filesystem::path& file, const json& settings) {
  AtomicFile(file).commit(settings.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

std::string settings_difference(const json& stored, const json& wanted) {
  for (const auto& [name, value] : wanted.items()) {
    const auto found = stored.find(name);
    if (found == stored.end()) return fmt::format("no {}, not {}", name, shown(value));
    if (*found != value) return fmt::format("{} = {}, not {}", name, shown(*found), shown(value));
  }
  return {};
}

}  // namespace forerun
