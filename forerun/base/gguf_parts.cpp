#include "forerun/base/gguf_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace forerun {
namespace {

constexpr std::string_view kEnding = ".gguf", kOf = "-of-";
constexpr std::size_t kDigits = 5;

// Takes "-00002" off the end; 0 where there is none.
int take_number(std::string_view& text) {
  if (text.size() < kDigits) return 0;
  const std::string_view digits = text.substr(text.size() - kDigits);
  int out = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return 0;
    out = 10 * out + (c - '0');
  }
  text.remove_suffix(kDigits);
  return out;
}

}  // namespace

std::filesystem::path GgufPartName::file(int number) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, number, count);
}

std::optional<GgufPartName> gguf_part_name(const std::filesystem::path& path) {
  const std::string whole = path.string();
  std::string_view left = whole;
  if (!left.ends_with(kEnding)) return std::nullopt;
  left.remove_suffix(kEnding.size());
  const int count = take_number(left);
  if (!left.ends_with(kOf)) return std::nullopt;
  left.remove_suffix(kOf.size());
  const int part = take_number(left);
  if (part < 1 || part > count || !left.ends_with('-')) return std::nullopt;
  left.remove_suffix(1);
  return GgufPartName{.stem = std::string(left), .part = part, .count = count};
}

std::vector<std::filesystem::path> gguf_files(const std::filesystem::path& path) {
  const auto name = gguf_part_name(path);
  if (!name) return {path};
  std::vector<std::filesystem::path> out;
  for (int i = 1; i <= name->count; ++i) out.push_back(name->file(i));
  return out;
}

std::filesystem::path without_gguf_ending(std::filesystem::path path) {
  if (const auto name = gguf_part_name(path)) return name->stem;
  if (path.extension() == kEnding) path.replace_extension();
  return path;
}

}  // namespace forerun
