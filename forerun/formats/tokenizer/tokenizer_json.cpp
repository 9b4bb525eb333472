#include "forerun/formats/tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"
#include "forerun/formats/tokenizer/internal/json_steps.h"

namespace forerun {
namespace {

using nlohmann::json;

const json& field(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

bool is_byte_token(std::string_view token) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>' &&
         kHex.find(token[3]) != kHex.npos && kHex.find(token[4]) != kHex.npos;
}

// Fills a spec part by part; `error` is the first that fails.
class Reader {
 public:
  Reader(const json& root, const json& config) : root_(root), config_(config) {}

  Result<TokenizerSpec> read() {
    for (const auto step :
         {&Reader::check_model, &Reader::read_options, &Reader::read_vocab, &Reader::read_merges,
          &Reader::read_added, &Reader::read_steps, &Reader::read_template, &Reader::read_config}) {
      (this->*step)();
      if (!error_.empty()) return Error{error_};
    }
    return std::move(spec_);
  }

 private:
  void fail(const Error& error, std::string_view where) {
    error_ = fmt::format("{}: {}", where, error.message);
  }
  template <class T>
  T option(const json& object, const char* key, T fallback, std::string_view where) {
    Result<T> value = json_field_or<T>(object, key, fallback);
    if (value) return *std::move(value);
    fail(value.error(), where);
    return fallback;
  }

  void check_model() {
    if (!root_.is_object()) return void(error_ = "tokenizer.json must be an object");
    model_ = &field(root_, "model");
    if (!model_->is_object()) return void(error_ = "'model' is missing; is this a tokenizer.json?");
    const std::string type = option<std::string>(*model_, "type", "", "model");
    if (type == "Unigram" || (type.empty() && field(*model_, "vocab").is_array())) {
      error_ =
          "model: Unigram (SentencePiece by probabilities) is not supported; use a model with a "
          "BPE tokenizer";
    } else if (!type.empty() && type != "BPE") {
      error_ =
          fmt::format("model: {} is not supported; use a model with a BPE tokenizer", quote(type));
    }
  }

  void read_options() {
    spec_.ignore_merges = option(*model_, "ignore_merges", false, "model");
    spec_.byte_fallback = option(*model_, "byte_fallback", false, "model");
    spec_.fuse_missing = option(*model_, "fuse_unk", false, "model");
    if (option(*model_, "dropout", 0.0, "model") != 0.0)
      error_ = "model: 'dropout' must be 0 or null";
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!option<std::string>(*model_, key, "", "model").empty()) {
        error_ = fmt::format("model: '{}' is not supported; expected null", key);
      }
    }
  }

  // Room for `id`. The bound keeps a stray id from claiming gigabytes for the holes before it.
  bool make_room(std::int64_t id, std::size_t entries) {
    const auto limit = static_cast<std::int64_t>(2 * entries + 65536);
    if (id < 0 || id >= limit) {
      error_ = fmt::format("id {} with {} entries; expected 0 to {}", id, entries, limit - 1);
      return false;
    }
    const std::size_t size = std::max(spec_.tokens.size(), static_cast<std::size_t>(id) + 1);
    spec_.tokens.resize(size);
    spec_.types.resize(size, TokenType::kUnused);
    return true;
  }

  void read_vocab() {
    const json& vocab = field(*model_, "vocab");
    if (!vocab.is_object() || vocab.empty())
      return void(error_ = "model: 'vocab' must map tokens to ids");
    for (const auto& [token, value] : vocab.items()) {
      if (!value.is_number_integer())
        return void(error_ = fmt::format("model: the id of {} is no integer", quote(token)));
      const auto id = value.get<std::int64_t>();
      if (!make_room(id, vocab.size()))
        return void(error_ = fmt::format("model: token {} has {}", quote(token), error_));
      if (token.empty()) continue;
      const auto at = static_cast<std::size_t>(id);
      if (!spec_.tokens[at].empty()) {
        return void(error_ = fmt::format("model: id {} is both {} and {}", id,
                                         quote(spec_.tokens[at]), quote(token)));
      }
      spec_.tokens[at] = token;
      spec_.types[at] =
          spec_.byte_fallback && is_byte_token(token) ? TokenType::kByte : TokenType::kNormal;
      ids_.emplace(token, static_cast<Token>(id));
    }
    const std::string unknown = option<std::string>(*model_, "unk_token", "", "model");
    if (unknown.empty()) return;
    spec_.unknown = spec_.missing = find(unknown);
    if (!spec_.unknown)
      return void(error_ =
                      fmt::format("model: unk_token {} is not in the vocabulary", quote(unknown)));
    spec_.types[static_cast<std::size_t>(*spec_.unknown)] = TokenType::kUnknown;
  }

  void read_merges() {
    const json& merges = field(*model_, "merges");
    if (!merges.is_array()) return void(error_ = "model: 'merges' must be a list");
    for (const json& merge : merges) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        spec_.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      const std::string text = merge.is_string() ? merge.get<std::string>() : "";
      const std::size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos) {
        return void(
            error_ = fmt::format("model: merge {} must be \"left right\" or [\"left\", \"right\"]",
                                 spec_.merges.size()));
      }
      spec_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
  }

  void read_added() {
    const json& added = field(root_, "added_tokens");
    if (added.is_null()) return;
    if (!added.is_array()) return void(error_ = "'added_tokens' must be a list");
    for (const json& entry : added) {
      const std::string where = fmt::format("added token {}", spec_.added.size());
      const Result<std::string> content = json_field<std::string>(entry, "content");
      const Result<std::int64_t> id = json_field<std::int64_t>(entry, "id");
      if (!content) return fail(content.error(), where);
      if (!id) return fail(id.error(), where);
      if (content->empty()) continue;
      if (!make_room(*id, ids_.size() + added.size())) return void(error_ = where + ": " + error_);
      AddedToken token{.id = static_cast<Token>(*id)};
      token.special = option(entry, "special", false, where);
      token.lstrip = option(entry, "lstrip", false, where);
      token.rstrip = option(entry, "rstrip", false, where);
      token.single_word = option(entry, "single_word", false, where);
      token.normalized = option(entry, "normalized", !token.special, where);
      if (!error_.empty()) return;
      place_added(token, *content);
    }
  }

  void place_added(const AddedToken& token, const std::string& content) {
    std::string& text = spec_.tokens[static_cast<std::size_t>(token.id)];
    const std::optional<Token> known = find(content);
    if ((!text.empty() && text != content) || (known && *known != token.id)) {
      error_ = fmt::format("added token {} has id {}, which is {} in the vocabulary",
                           quote(content), token.id, quote(text));
      return;
    }
    text = content;
    ids_.emplace(content, token.id);
    spec_.types[static_cast<std::size_t>(token.id)] =
        token.special ? TokenType::kControl : TokenType::kUserDefined;
    spec_.added.push_back(token);
  }

  void read_steps() {
    Result<std::vector<NormalizeStep>> normalize =
        internal::normalize_steps(field(root_, "normalizer"));
    if (!normalize) return void(error_ = normalize.error().message);
    Result<std::vector<SplitStep>> split = internal::split_steps(field(root_, "pre_tokenizer"));
    if (!split) return void(error_ = split.error().message);
    spec_.normalize = *std::move(normalize);
    spec_.split = *std::move(split);
    spec_.strip_space = internal::drops_first_space(field(root_, "decoder"));
  }

  // The special tokens that TemplateProcessing puts before and after one text.
  void read_template() {
    const json& post = field(root_, "post_processor");
    std::vector<const json*> todo = {&post};
    while (!todo.empty() && error_.empty()) {
      const json& step = *todo.back();
      todo.pop_back();
      for (const json& inner : field(step, "processors")) todo.push_back(&inner);
      if (field(step, "type") == "TemplateProcessing") read_single(field(step, "single"));
    }
  }

  void read_single(const json& single) {
    bool after_text = false;
    for (const json& part : single) {
      if (part.is_object() && part.contains("Sequence")) after_text = true;
      const json& special = field(part, "SpecialToken");
      if (special.is_null()) continue;
      const Result<std::string> name = json_field<std::string>(special, "id");
      if (!name) return fail(name.error(), "post_processor");
      const std::optional<Token> id = find(*name);
      bool& add = after_text ? spec_.add_eos : spec_.add_bos;
      if (!id || add) {
        error_ = fmt::format(
            "post_processor: {} {}; expected at most one known token before and after the text",
            quote(*name), id ? "is one too many" : "is not in the vocabulary");
        return;
      }
      add = true;
      (after_text ? spec_.eos : spec_.bos) = id;
    }
  }

  void read_config() {
    if (config_.is_null()) return;
    if (!config_.is_object()) return void(error_ = "tokenizer_config.json must be an object");
    using Named = std::pair<const char*, std::optional<Token>*>;
    for (const auto& [key, slot] :
         {Named{"bos_token", &spec_.bos}, Named{"eos_token", &spec_.eos},
          Named{"pad_token", &spec_.pad}, Named{"unk_token", &spec_.unknown}}) {
      const json& value = field(config_, key);
      const json& text = value.is_object() ? field(value, "content") : value;
      if (text.is_string() && !*slot) *slot = find(text.get<std::string>());
    }
    const auto adds = [&](const char* key) {
      return option(config_, key, false, "tokenizer_config.json");
    };
    spec_.add_bos = spec_.add_bos || (adds("add_bos_token") && spec_.bos);
    spec_.add_eos = spec_.add_eos || (adds("add_eos_token") && spec_.eos);
  }

  std::optional<Token> find(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional<Token>(found->second);
  }

  const json& root_;
  const json& config_;
  const json* model_ = nullptr;
  TokenizerSpec spec_;
  std::unordered_map<std::string, Token> ids_;
  std::string error_;
};

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config_json) {
  const Result<json> root = parse_json(tokenizer_json);
  if (!root) return Error{"tokenizer.json: " + root.error().message};
  json config;
  if (!tokenizer_config_json.empty()) {
    Result<json> parsed = parse_json(tokenizer_config_json);
    if (!parsed) return Error{"tokenizer_config.json: " + parsed.error().message};
    config = *std::move(parsed);
  }
  Result<TokenizerSpec> spec = Reader(*root, config).read();
  if (!spec) return Error{"tokenizer.json: " + spec.error().message};
  return spec;
}

}  // namespace forerun
