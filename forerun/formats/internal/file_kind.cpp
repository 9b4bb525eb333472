#include "forerun/formats/internal/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

struct Kind {
  std::string_view prefix;  // lower case; compared without regard to case
  std::string_view description;
};

constexpr std::array<Kind, 11> kKinds{{
    {"gguf", "is a GGUF file; give it where a GGUF file is expected"},
    {"fugg", "is a big-endian GGUF file; convert the model again for little-endian machines"},
    {"lmgg", "is a GGML file from before GGUF; convert the model again to GGUF"},
    {"fmgg", "is a GGML file from before GGUF; convert the model again to GGUF"},
    {"tjgg", "is a GGML file from before GGUF; convert the model again to GGUF"},
    {"pk\x03\x04",
     "is a zip archive, as PyTorch checkpoints are; convert it to safetensors or GGUF"},
    {"\x80\x02",
     "is a Python pickle, as old PyTorch checkpoints are; convert it to safetensors or GGUF"},
    {"\x1f\x8b", "is a gzip archive; unpack it"},
    {"version https://git-lfs", "is a Git LFS pointer, not the file itself; run 'git lfs pull'"},
    {"<!doctype html", "is a web page; the download went wrong, perhaps for want of a login"},
    {"<html", "is a web page; the download went wrong, perhaps for want of a login"},
}};

bool starts_with(std::string_view text, std::string_view lower_prefix) {
  return text.size() >= lower_prefix.size() &&
         std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> file) {
  std::uint64_t header = 0;
  if (file.size() < sizeof header + 2) return false;
  std::memcpy(&header, file.data(), sizeof header);
  return header >= 2 && header <= (std::uint64_t{1} << 32) && file[sizeof header] == std::byte{'{'};
}

std::string describe_unexpected(std::span<const std::byte> file) {
  const auto head = file.first(std::min<std::size_t>(file.size(), 64));
  std::string_view text{reinterpret_cast<const char*>(head.data()), head.size()};
  for (const Kind& kind : kKinds) {
    if (starts_with(text, kind.prefix)) return std::string(kind.description);
  }
  if (looks_like_safetensors(file)) {
    return "is a safetensors file; give it where a safetensors file is expected";
  }
  const std::string_view first = text.substr(0, 8);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  for (const Kind& kind : kKinds) {  // A web page may start with blank lines.
    if (kind.prefix.starts_with('<') && starts_with(text, kind.prefix)) {
      return std::string(kind.description);
    }
  }
  if (text.starts_with('{')) return "is JSON text; name the file with the weights";
  return fmt::format("starts with {}, which is no known format; check that it is a model file",
                     quote(first));
}

}  // namespace forerun::internal
