#include "forerun/formats/gguf_tokenizer.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/tokenizer/internal/pre_tokenizers.h"

namespace forerun {
namespace {

using Strings = std::span<const std::string_view>;

std::string key(const char* name) { return std::string("tokenizer.ggml.") + name; }

// Nothing where the key is missing, or holds more than 31 bits, as 2^32 - 1 for "none".
Result<std::optional<Token>> id(const Gguf& gguf, const char* name) {
  if (gguf.find_value(key(name)) == nullptr) return std::optional<Token>();
  const auto number = gguf.read<std::int64_t>(key(name));
  if (!number) return number.error();
  if (!std::in_range<Token>(*number)) return std::optional<Token>();
  return std::optional(static_cast<Token>(*number));
}

// "left right"; neither side holds a space in GPT-2's alphabet, but a text may start with one
// elsewhere.
Result<std::vector<std::pair<std::string, std::string>>> merges(const Gguf& gguf) {
  const Result<Strings> lines = gguf.read<Strings>(key("merges"));
  if (!lines) return lines.error();
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(lines->size());
  for (const std::string_view line : *lines) {
    const std::size_t space = line.find(' ', 1);
    if (space == std::string_view::npos) {
      return Error{fmt::format("{}: entry {} is no pair of pieces", key("merges"), out.size())};
    }
    out.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return out;
}

// The marks of Phi-3's chats take the white space behind them along, which its file does not say.
// Source: tokenizer.json of microsoft/Phi-3-mini-4k-instruct; llama-vocab.cpp in
// ggml-org/llama.cpp.
void strip_behind_marks(TokenizerSpec& spec) {
  for (AddedToken& a : spec.added) {
    const std::string& name = spec.tokens[static_cast<std::size_t>(a.id)];
    if (a.special && name != "<unk>" && name != "<s>" && name != "<|endoftext|>") a.rstrip = true;
  }
}

Result<std::vector<TokenType>> types(const Gguf& gguf, std::size_t vocab) {
  std::vector<TokenType> out(vocab, TokenType::kNormal);
  if (gguf.find_value(key("token_type")) == nullptr) return out;
  const auto numbers = gguf.read<std::vector<std::int32_t>>(key("token_type"));
  if (!numbers) return numbers.error();
  if (numbers->size() != vocab) {
    return Error{
        fmt::format("{} has {} entries for {} tokens", key("token_type"), numbers->size(), vocab)};
  }
  for (std::size_t i = 0; i < vocab; ++i) {
    const std::int32_t n = (*numbers)[i];
    if (n < 1 || n > 6)
      return Error{fmt::format("{}: entry {} is {}, not 1 to 6", key("token_type"), i, n)};
    out[i] = static_cast<TokenType>(n);
  }
  return out;
}

}  // namespace

Result<TokenizerSpec> tokenizer_spec(const Gguf& gguf) {
  const auto model = gguf.read<std::string_view>(key("model"));
  if (!model) return model.error();
  const Result<Strings> tokens = gguf.read<Strings>(key("tokens"));
  if (!tokens) return tokens.error();

  TokenizerSpec spec;
  spec.tokens.assign(tokens->begin(), tokens->end());
  auto kinds = types(gguf, spec.tokens.size());
  if (!kinds) return kinds.error();
  spec.types = *std::move(kinds);
  if (*model == "gpt2") {
    spec.kind = TokenizerSpec::Kind::kMerges;
    const auto pre = gguf.read_or<std::string_view>(key("pre"), "default");
    if (!pre) return pre.error();
    spec.pre = std::string(*pre);
    auto pairs = merges(gguf);
    if (!pairs) return pairs.error();
    spec.merges = *std::move(pairs);
  } else if (*model == "llama") {
    spec.kind = TokenizerSpec::Kind::kSentencePiece;
    spec.byte_fallback = true;
    auto scores = gguf.read<std::vector<float>>(key("scores"));
    if (!scores) return scores.error();
    spec.scores = *std::move(scores);
    const auto prefix = gguf.read_or<bool>(key("add_space_prefix"), true);
    if (!prefix) return prefix.error();
    spec.add_space_prefix = *prefix;
    spec.strip_space = spec.add_space_prefix;
  } else {
    return Error{
        fmt::format("{} {} is not supported; gpt2 (byte-level BPE) and llama "
                    "(SentencePiece BPE) are",
                    key("model"), quote(*model))};
  }
  for (const auto& [name, to] :
       {std::pair("bos_token_id", &spec.bos), std::pair("eos_token_id", &spec.eos),
        std::pair("unknown_token_id", &spec.unknown), std::pair("padding_token_id", &spec.pad)}) {
    const auto found = id(gguf, name);
    if (!found) return found.error();
    *to = *found;
  }
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (gguf.find_value(key(name)) == nullptr) continue;
    const auto end = gguf.read<std::int64_t>(key(name));
    if (!end) return end.error();
    if (*end == std::numeric_limits<std::uint32_t>::max()) continue;  // none
    if (*end < 0 || std::cmp_greater_equal(*end, spec.tokens.size())) {
      return Error{
          fmt::format("{} is {}, but the vocabulary has ids 0 to {}: convert the model again",
                      key(name), *end, spec.tokens.size() - 1)};
    }
    spec.end.push_back(static_cast<Token>(*end));
  }
  // Without the flag: SentencePiece models and some byte-level ones (Llama 3) begin with BOS.
  const auto bos = gguf.read_or<bool>(key("add_bos_token"),
                                      *model == "llama" || internal::begins_with_bos(spec.pre));
  if (!bos) return bos.error();
  const auto eos = gguf.read_or<bool>(key("add_eos_token"), false);
  if (!eos) return eos.error();
  spec.add_bos = *bos;
  spec.add_eos = *eos;
  spec.added = added_by_type(spec);
  if (*model == "llama" && gguf.get<std::string_view>("general.architecture") == "phi3") {
    strip_behind_marks(spec);
  }
  return spec;
}

}  // namespace forerun
