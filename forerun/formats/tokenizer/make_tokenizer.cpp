#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/base/utf8.h"
#include "forerun/formats/tokenizer/internal/byte_alphabet.h"
#include "forerun/formats/tokenizer/internal/normalizer.h"
#include "forerun/formats/tokenizer/internal/pre_tokenizers.h"
#include "forerun/formats/tokenizer/internal/tokenizer_data.h"
#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun {
namespace {

using internal::kNoToken;
using internal::TokenizerData;

constexpr std::size_t kMaxVocab = std::size_t{1} << 24;
constexpr std::string_view kSpace = "\u2581";

// Fills `data` in the order in which its parts need each other; `error` is the first that fails.
class Maker {
 public:
  explicit Maker(TokenizerSpec spec) : data_(std::make_shared<TokenizerData>()) {
    data_->spec = std::move(spec);
  }

  Result<std::shared_ptr<const TokenizerData>> make() {
    for (const auto step : {&Maker::check_sizes, &Maker::check_ids, &Maker::check_steps,
                            &Maker::set_splitter, &Maker::index_tokens, &Maker::set_byte_tokens,
                            &Maker::set_merges, &Maker::set_scores, &Maker::set_added}) {
      (this->*step)();
      if (!error_.empty()) return Error{"tokenizer: " + error_};
    }
    set_pieces();
    set_end();
    set_shown();
    return std::shared_ptr<const TokenizerData>(data_);
  }

 private:
  TokenizerSpec& spec() { return data_->spec; }
  std::size_t size() const { return data_->spec.tokens.size(); }
  bool in_vocab(Token id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }

  void check_sizes() {
    if (size() == 0 || size() > kMaxVocab) {
      error_ = fmt::format("{} tokens; expected 1 to {}", size(), kMaxVocab);
    } else if (spec().types.size() != size()) {
      error_ = fmt::format("{} token types for {} tokens; expected one each", spec().types.size(),
                           size());
    } else if (spec().kind == TokenizerSpec::Kind::kSentencePiece &&
               spec().scores.size() != size()) {
      error_ =
          fmt::format("{} scores for {} tokens; expected one each", spec().scores.size(), size());
    }
  }

  void check_ids() {
    const auto check = [&](std::string_view what, std::optional<Token> id) {
      if (id && !in_vocab(*id))
        error_ = fmt::format("{} is {}; the vocabulary has ids 0 to {}", what, *id, size() - 1);
    };
    check("bos", spec().bos);
    check("eos", spec().eos);
    check("unknown", spec().unknown);
    check("missing", spec().missing);
    check("pad", spec().pad);
    for (const Token id : spec().end) check("an end token", id);
    for (const AddedToken& a : spec().added) check("an added token", a.id);
    if (spec().add_bos && !spec().bos) error_ = "BOS is to be added, but there is no BOS token";
    if (spec().add_eos && !spec().eos) error_ = "EOS is to be added, but there is no EOS token";
  }

  // Every step reads the whole text.
  void check_steps() {
    constexpr std::size_t kMost = 32, kLongest = 1024;
    if (std::max(spec().normalize.size(), spec().split.size()) > kMost) {
      error_ =
          fmt::format("{} steps of the normalizer and {} of the pre-tokenizer; at most {} each",
                      spec().normalize.size(), spec().split.size(), kMost);
    }
    for (const NormalizeStep& step : spec().normalize) {
      const auto* r = std::get_if<Replace>(&step);
      if (r == nullptr || (!r->from.empty() && r->from.size() <= kLongest)) continue;
      error_ = fmt::format("a normalizer replaces a text of {} bytes; expected 1 to {}",
                           r->from.size(), kLongest);
    }
  }

  void set_splitter() {
    if (spec().kind == TokenizerSpec::Kind::kSentencePiece) {
      data_->meta_space = true;
      return;
    }
    if (!spec().pre.empty()) {
      Result<internal::PreTokenizer> pre = internal::pre_tokenizer(spec().pre);
      if (!pre) return void(error_ = pre.error().message);
      spec().normalize = pre->normalize;
      spec().split = pre->split;
      spec().ignore_merges = pre->ignore_merges;
    }
    Result<internal::Splitter> splitter = internal::Splitter::make(spec().split);
    if (!splitter) return void(error_ = splitter.error().message);
    data_->splitter = *std::move(splitter);
    data_->byte_level =
        std::any_of(spec().split.begin(), spec().split.end(),
                    [](const SplitStep& step) { return std::holds_alternative<ByteLevel>(step); });
    data_->meta_space = !data_->byte_level;
  }

  void index_tokens() {
    data_->ids.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string& token = spec().tokens[i];
      if (!is_valid_utf8(token)) return void(error_ = fmt::format("token {} is not UTF-8", i));
      if (!token.empty()) data_->ids.try_emplace(token, static_cast<Token>(i));
    }
  }

  void set_byte_tokens() {
    for (int byte = 0; byte < 256; ++byte) {
      const auto code = static_cast<char>(byte);
      const std::string name = data_->byte_level ? internal::to_byte_alphabet({&code, 1})
                                                 : fmt::format("<0x{:02X}>", byte);
      const Token id = data_->find(name);
      data_->byte_tokens[static_cast<std::size_t>(byte)] = id;
      const bool needed =
          spec().kind == TokenizerSpec::Kind::kSentencePiece && spec().byte_fallback;
      if (needed && id == kNoToken)
        return void(error_ = fmt::format("byte fallback needs the token {}", name));
    }
  }

  void set_merges() {
    data_->merges.reserve(spec().merges.size());
    for (std::size_t rank = 0; rank < spec().merges.size(); ++rank) {
      const auto& [left, right] = spec().merges[rank];
      const Token ids[] = {data_->find(left), data_->find(right), data_->find(left + right)};
      if (std::find(std::begin(ids), std::end(ids), kNoToken) != std::end(ids)) {
        return void(
            error_ = fmt::format("merge {} ({} + {}): a part or the whole is not in the vocabulary",
                                 rank, quote(left), quote(right)));
      }
      data_->merges.insert(ids[0], ids[1], {static_cast<std::uint32_t>(rank), ids[2]});
    }
    spec().merges = {};
  }

  void set_scores() {
    if (spec().kind != TokenizerSpec::Kind::kSentencePiece) return;
    for (std::size_t i = 0; i < size(); ++i) {
      const auto id = static_cast<Token>(i);
      if (std::isnan(spec().scores[i]))
        return void(error_ = fmt::format("the score of token {} is not a number", i));
      if (data_->is(id, TokenType::kUserDefined)) data_->user_defined.insert(spec().tokens[i], id);
      if (data_->merges_into(id))
        data_->longest_piece = std::max(data_->longest_piece, spec().tokens[i].size());
    }
    data_->scores = std::exchange(spec().scores, {});
  }

  void set_added() {
    std::vector<internal::AddedTokens::Entry> plain, normal;
    std::vector<std::string> texts;
    texts.reserve(spec().added.size());
    for (const AddedToken& a : spec().added) {
      const std::string& text = spec().tokens[static_cast<std::size_t>(a.id)];
      if (text.empty()) continue;
      if (!a.normalized) {
        plain.push_back({text, a});
      } else {
        Result<std::string> normal_text = internal::normalized(text, spec().normalize);
        if (!normal_text) return void(error_ = normal_text.error().message);
        texts.push_back(*std::move(normal_text));
        normal.push_back({texts.back(), a});
      }
    }
    Result<internal::AddedTokens> added = internal::AddedTokens::make(plain);
    Result<internal::AddedTokens> added_normal = internal::AddedTokens::make(normal);
    if (!added || !added_normal)
      return void(error_ = "added tokens: this PCRE2 lacks Unicode properties");
    data_->added = *std::move(added);
    data_->added_normalized = *std::move(added_normal);
  }

  std::string piece_of(Token id) const {
    const std::string& token = data_->spec.tokens[static_cast<std::size_t>(id)];
    if (data_->is(id, TokenType::kControl)) return token;
    if (data_->byte_level) {
      if (data_->is(id, TokenType::kUserDefined)) return token;
      return internal::from_byte_alphabet(token).value_or(token);
    }
    if (data_->is(id, TokenType::kByte)) {
      const auto& bytes = data_->byte_tokens;
      const auto at = std::find(bytes.begin(), bytes.end(), id);
      if (at != bytes.end()) return {static_cast<char>(at - bytes.begin())};
    }
    return *internal::normalized(token, {Replace{std::string(kSpace), " "}});  // shorter
  }

  void set_pieces() {
    data_->pieces.reserve(size());
    for (std::size_t i = 0; i < size(); ++i)
      data_->pieces.push_back(piece_of(static_cast<Token>(i)));
  }

  bool control(std::string_view name) const {
    const Token id = data_->find(name);
    return id != kNoToken && data_->is(id, TokenType::kControl);
  }
  // OpenAI's format of answers in several messages, of gpt-oss.
  bool is_harmony() const {
    return data_->find("<|channel|>") != kNoToken && data_->find("<|message|>") != kNoToken;
  }

  void set_end() {
    std::vector<Token> end = spec().end;
    if (spec().eos) end.push_back(*spec().eos);
    for (const std::string_view name :
         {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>",
          "<|end_of_text|>", "<|end|>", "</s>", "<eos>"}) {
      const Token id = data_->find(name);
      if (id != kNoToken && data_->is(id, TokenType::kControl)) end.push_back(id);
    }
    if (is_harmony()) {
      for (const std::string_view name : {"<|return|>", "<|call|>"}) {
        if (const Token id = data_->find(name); id != kNoToken) end.push_back(id);
      }
      std::erase(end, data_->find("<|end|>"));  // of a message of several, whatever the file says
    }
    std::sort(end.begin(), end.end());
    end.erase(std::unique(end.begin(), end.end()), end.end());
    data_->end = std::move(end);
  }

  // Whoever reads an answer looks for these in its text, also where a file has them as special.
  void set_shown() {
    std::vector<std::string_view> names = {"<think>",      "</think>",    "<tool_call>",
                                           "</tool_call>", "<arg_key>",   "</arg_key>",
                                           "<arg_value>",  "</arg_value>"};
    if (is_harmony()) {
      for (const char* name :
           {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"})
        names.emplace_back(name);
    }
    for (const std::string_view name : names) {
      if (!control(name)) continue;
      const Token id = data_->find(name);
      if (!std::binary_search(data_->end.begin(), data_->end.end(), id)) data_->shown.push_back(id);
    }
  }

  std::shared_ptr<TokenizerData> data_;
  std::string error_;
};

}  // namespace

std::vector<AddedToken> added_by_type(const TokenizerSpec& spec) {
  std::vector<AddedToken> out;
  for (std::size_t i = 0; i < std::min(spec.tokens.size(), spec.types.size()); ++i) {
    const bool special =
        spec.types[i] == TokenType::kControl || spec.types[i] == TokenType::kUnknown;
    const bool user = spec.types[i] == TokenType::kUserDefined &&
                      spec.kind != TokenizerSpec::Kind::kSentencePiece;
    if (special || user) out.push_back({.id = static_cast<Token>(i), .special = special});
  }
  return out;
}

void drop_added_from(TokenizerSpec& spec, std::size_t rows) {
  if (spec.tokens.size() <= rows || spec.types.size() != spec.tokens.size()) return;
  const auto beyond = [&](Token id) { return id >= 0 && std::cmp_greater_equal(id, rows); };
  std::vector<bool> is_added(spec.tokens.size());
  for (const AddedToken& a : spec.added) {
    if (a.id >= 0 && std::cmp_less(a.id, is_added.size()))
      is_added[static_cast<std::size_t>(a.id)] = true;
  }
  for (std::size_t i = rows; i < spec.tokens.size(); ++i) {
    if (!is_added[i] && !spec.tokens[i].empty()) return;  // the empty ones are holes between ids
  }
  spec.tokens.resize(rows);
  spec.types.resize(rows);
  if (spec.scores.size() > rows) spec.scores.resize(rows);
  std::erase_if(spec.added, [&](const AddedToken& a) { return beyond(a.id); });
  std::erase_if(spec.end, beyond);
  for (std::optional<Token>* id : {&spec.bos, &spec.eos, &spec.unknown, &spec.pad, &spec.missing}) {
    if (*id && beyond(**id)) id->reset();
  }
}

Result<Tokenizer> make_tokenizer(TokenizerSpec spec) {
  Result<std::shared_ptr<const internal::TokenizerData>> data = Maker(std::move(spec)).make();
  if (!data) return data.error();
  return Tokenizer(*std::move(data));
}

}  // namespace forerun
