#include "forerun/formats/tokenizer/internal/pre_tokenizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Marks belong to words.
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words of Tekken's kind with what English puts behind them. Source: o200k_base in openai/tiktoken.
constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// DeepSeek cuts step by step.
constexpr std::string_view kNewLines = R"([\r\n])";
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
    "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    "\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-"
    "\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d"
    "\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943]+";
constexpr std::string_view kDeepSeekPunctuation =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";
constexpr std::string_view kDeepSeekSpaces = R"(\s+(?![\s\S]))";  // at the end
constexpr std::string_view kDeepSeekIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";

enum class Kind : std::uint8_t {
  kGpt2,
  kSmolLm,
  kLlama3,
  kLlama3Merged,
  kQwen2,
  kQwen35,
  kTekken,
  kGpt4o,
  kDeepSeek,
  kDeepSeekCoder
};

constexpr std::array<std::pair<std::string_view, Kind>, 27> kNames = {
    {{"gpt-2", Kind::kGpt2},
     {"gpt2", Kind::kGpt2},
     {"default", Kind::kGpt2},
     {"olmo", Kind::kGpt2},
     {"smollm", Kind::kSmolLm},
     {"refact", Kind::kSmolLm},
     {"starcoder", Kind::kSmolLm},
     {"llama-bpe", Kind::kLlama3},
     {"llama3", Kind::kLlama3},
     {"llama-v3", Kind::kLlama3},
     {"falcon3", Kind::kLlama3},
     {"falcon-h1", Kind::kLlama3},
     {"pixtral", Kind::kLlama3},
     {"midm-2.0", Kind::kLlama3},
     {"lfm2", Kind::kLlama3},
     {"smaug-bpe", Kind::kLlama3Merged},
     {"dbrx", Kind::kLlama3Merged},
     {"glm4", Kind::kLlama3Merged},
     {"chatglm-bpe", Kind::kLlama3Merged},
     {"qwen2", Kind::kQwen2},
     {"deepseek-r1-qwen", Kind::kQwen2},
     {"qwen35", Kind::kQwen35},
     {"tekken", Kind::kTekken},
     {"gpt-4o", Kind::kGpt4o},
     {"llama4", Kind::kGpt4o},
     {"deepseek-llm", Kind::kDeepSeek},
     {"deepseek-coder", Kind::kDeepSeekCoder}}};

const std::pair<std::string_view, Kind>* find(std::string_view name) {
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const auto& known) { return known.first == name; });
  return found == kNames.end() ? nullptr : &*found;
}

// The text is cut by each pattern in turn.
std::vector<SplitStep> by_patterns(std::initializer_list<std::string_view> patterns) {
  std::vector<SplitStep> out;
  for (const std::string_view p : patterns) out.push_back(Split{.pattern = std::string(p)});
  out.push_back(ByteLevel{.use_regex = false});
  return out;
}

PreTokenizer made(Kind kind) {
  switch (kind) {
    case Kind::kGpt2:
      return {{}, {ByteLevel{}}, false};
    case Kind::kSmolLm:
      return {{}, {Digits{}, ByteLevel{}}, false};
    case Kind::kLlama3:
      return {{}, by_patterns({kLlama3Pattern}), true};
    case Kind::kLlama3Merged:
      return {{}, by_patterns({kLlama3Pattern}), false};
    case Kind::kQwen2:
      return {{Nfc{}}, by_patterns({kQwen2Pattern}), false};
    case Kind::kQwen35:
      return {{Nfc{}}, by_patterns({kQwen35Pattern}), false};
    case Kind::kTekken:
      return {{}, by_patterns({kTekkenPattern}), true};
    case Kind::kGpt4o:
      return {{}, by_patterns({kGpt4oPattern}), false};
    case Kind::kDeepSeek:
      return {{},
              by_patterns({kNewLines, kDeepSeekLetters, kDeepSeekPunctuation, kDeepSeekSpaces,
                           kDeepSeekIdeographs, R"(\p{N}+)"}),
              false};
    case Kind::kDeepSeekCoder:
      return {
          {},
          by_patterns({kNewLines, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekIdeographs, R"(\p{N})"}),
          false};
  }
  return {};
}

}  // namespace

Result<PreTokenizer> pre_tokenizer(std::string_view name) {
  if (const auto* known = find(name)) return made(known->second);
  std::vector<std::string_view> names;
  for (const auto& [supported, kind] : kNames) names.push_back(supported);
  return Error{fmt::format(
      "pre-tokenizer {} is not supported; supported are {}. Use a model of one of these "
      "families, or its Hugging Face folder with tokenizer.json",
      quote(name), fmt::join(names, ", "))};
}

bool begins_with_bos(std::string_view name) {
  const auto* known = find(name);
  return known != nullptr && (known->second == Kind::kLlama3 || known->second == Kind::kTekken);
}

}  // namespace forerun::internal
