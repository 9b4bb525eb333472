#include "forerun/api/drafter_options.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

namespace forerun {
namespace {

bool is_there(std::string_view path) {
  std::error_code ignored;
  return path == "self" || std::filesystem::exists(path, ignored);
}

}  // namespace

std::string take_options(
    std::string_view method, const std::string& argument, std::span<const std::string_view> known,
    const std::function<void(std::string_view name, std::string_view value)>& set) {
  std::set<std::string_view> given;
  std::string_view rest = argument;
  for (std::size_t colon; (colon = rest.rfind(':')) != std::string_view::npos;) {
    if (is_there(rest)) break;  // a path may hold colons
    const std::string_view piece = rest.substr(colon + 1), before = rest.substr(0, colon);
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      if (!is_there(before)) break;
      throw UsageError(fmt::format("{}: there is no option '{}'; there are {}", method, name,
                                   fmt::join(known, ", ")));
    }
    if (!given.insert(name).second) {
      throw UsageError(fmt::format("{}: '{}' is given twice: give it once", method, name));
    }
    set(name, equals == std::string_view::npos ? std::string_view() : piece.substr(equals + 1));
    rest = before;
  }
  return std::string(rest);
}

void refuse_option(std::string_view method, std::string_view name, std::string_view value,
                   std::string_view takes) {
  throw UsageError(
      fmt::format("{}: '{}={}' is not possible; {} takes {}", method, name, value, name, takes));
}

}  // namespace forerun
