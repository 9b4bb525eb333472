#include "forerun/formats/tokenizer/internal/pre_tokenizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<std::string_view, 3> kGpt2Names = {"gpt-2", "gpt2", "default"};
constexpr std::array<std::string_view, 1> kSmolLmNames = {"smollm"};
constexpr std::array<std::string_view, 3> kLlama3Names = {"llama-bpe", "llama3", "llama-v3"};
constexpr std::array<std::string_view, 2> kQwen2Names = {"qwen2", "deepseek-r1-qwen"};

SplitStep by_pattern(std::string_view pattern) { return Split{.pattern = std::string(pattern)}; }

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<PreTokenizer> pre_tokenizer(std::string_view name) {
  const ByteLevel bytes_only{.use_regex = false};
  if (contains(kGpt2Names, name)) return PreTokenizer{{}, {ByteLevel{}}, false};
  if (contains(kSmolLmNames, name)) return PreTokenizer{{}, {Digits{}, ByteLevel{}}, false};
  if (contains(kLlama3Names, name))
    return PreTokenizer{{}, {by_pattern(kLlama3Pattern), bytes_only}, true};
  if (contains(kQwen2Names, name))
    return PreTokenizer{{Nfc{}}, {by_pattern(kQwen2Pattern), bytes_only}, false};
  return Error{
      fmt::format("pre-tokenizer {} is not supported; supported are {}, {}, {}, {}. Use a model "
                  "of one of these "
                  "families, or its Hugging Face folder with tokenizer.json",
                  quote(name), fmt::join(kGpt2Names, ", "), fmt::join(kSmolLmNames, ", "),
                  fmt::join(kLlama3Names, ", "), fmt::join(kQwen2Names, ", "))};
}

}  // namespace forerun::internal
