#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "forerun/api/choose_precision.h"
#include "forerun/api/load_text_model.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/hub_cache.h"
#include "forerun/base/mapped_file.h"
#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/formats/tokenizer/tokenizer_json.h"
#include "forerun/models/load_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

Tokenizer tokenizer_of(Result<TokenizerSpec> spec, const std::string& path) {
  if (!spec) throw FormatError(path + ": " + spec.error().message);
  Result<Tokenizer> tokenizer = make_tokenizer(*std::move(spec));
  if (!tokenizer) throw FormatError(path + ": " + tokenizer.error().message);
  return *std::move(tokenizer);
}

void set_end_tokens(Model::Impl& impl, const std::vector<Token>& further) {
  impl.end_tokens.insert(impl.tokenizer.end_tokens().begin(), impl.tokenizer.end_tokens().end());
  impl.end_tokens.insert(further.begin(), further.end());
}

// An id that the model cannot emit would never end a text.
void check_end_tokens(const Model::Impl& impl, const HfConfig& config) {
  for (const Token id : config.end_of_sequence) {
    if (id < impl.lm.config.vocab) continue;
    throw FormatError(
        fmt::format("{}: eos_token_id names token {}, the model has tokens 0 to {}; correct it, or "
                    "download the file again",
                    config.end_file, id, impl.lm.config.vocab - 1));
  }
}

// A vocabulary larger than the embedding would index beyond it. (A smaller one is common: padding.)
void check_vocabulary(const Model::Impl& impl) {
  const auto rows = static_cast<std::size_t>(impl.lm.config.vocab);
  if (impl.tokenizer.vocab_size() > rows) {
    throw FormatError(
        fmt::format("{}: the tokenizer has {} entries, the model scores {}: they do "
                    "not belong together",
                    impl.path, impl.tokenizer.vocab_size(), rows));
  }
}

std::shared_ptr<Model::Impl> load_gguf_model(const std::string& path, const ChosenPrecision& chosen,
                                             const BodyLoaders& loaders) {
  const Gguf gguf = load_gguf(path);
  auto impl = std::make_shared<Model::Impl>(
      Model::Impl{.path = path,
                  .lm = loaders.from_gguf(gguf, chosen.precision),
                  .precision = chosen,
                  .tokenizer = tokenizer_of(tokenizer_spec(gguf), path)});
  const auto text = [&](const char* key) -> std::optional<std::string> {
    const auto value = gguf.get<std::string_view>(key);
    return value ? std::optional<std::string>(*value) : std::nullopt;
  };
  impl->chat = ChatFormat({.standard = text("tokenizer.chat_template"),
                           .with_tools = text("tokenizer.chat_template.tool_use")},
                          impl->tokenizer);
  set_end_tokens(*impl, {});
  return impl;
}

// None where there is no such file; one that is no regular file is an error.
std::optional<MappedFile> file_at(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  return load_file(path);
}

// Newer folders keep the chat template in a file of its own, some older ones in another.
ChatTemplates hf_chat_templates(const fs::path& folder, std::string_view config_text) {
  constexpr std::size_t kMost = 1 << 20;  // the largest published ones have 20 KB
  const fs::path path = folder / "chat_template.jinja";
  if (const auto own = file_at(path)) {
    if (own->text().size() <= kMost) {
      return {.standard = std::string(own->text()), .with_tools = {}};
    }
    throw FormatError(fmt::format("{}: {} bytes, at most {} are read; check that it is a template",
                                  path.string(), own->text().size(), kMost));
  }
  const auto parsed = [&](const char* name, std::string_view text) {
    auto stored = parse_chat_templates(text);
    if (!stored) throw FormatError((folder / name).string() + ": " + stored.error().message);
    return *std::move(stored);
  };
  ChatTemplates stored = parsed("tokenizer_config.json", config_text);
  constexpr const char* kOfProcessor = "chat_template.json";
  if (stored.standard || stored.with_tools) return stored;
  const auto other = file_at(folder / kOfProcessor);
  return other ? parsed(kOfProcessor, other->text()) : stored;
}

std::shared_ptr<Model::Impl> load_hf_model(const std::string& path, const ChosenPrecision& chosen,
                                           const BodyLoaders& loaders) {
  const fs::path folder(path);
  const HfConfig config = load_hf_config(folder);
  const std::string tokenizer_path = (folder / "tokenizer.json").string();
  const auto tokenizer = file_at(tokenizer_path);
  if (!tokenizer) {
    throw FormatError(tokenizer_path +
                      ": is missing; a model folder needs config.json, tokenizer.json and "
                      "*.safetensors");
  }
  const auto config_file = file_at(folder / "tokenizer_config.json");
  const std::string_view tokenizer_config = config_file ? config_file->text() : "{}";
  Result<TokenizerSpec> parsed = parse_tokenizer_json(tokenizer->text(), tokenizer_config);
  if (!parsed) throw FormatError(tokenizer_path + ": " + parsed.error().message);
  TokenizerSpec spec = *std::move(parsed);
  DecoderLm lm = loaders.from_folder(config, load_safetensors(folder), path, chosen.precision);
  drop_added_from(spec, static_cast<std::size_t>(lm.config.vocab));
  auto impl = std::make_shared<Model::Impl>(
      Model::Impl{.path = path,
                  .lm = std::move(lm),
                  .precision = chosen,
                  .tokenizer = tokenizer_of(std::move(spec), tokenizer_path)});
  impl->chat = ChatFormat(hf_chat_templates(folder, tokenizer_config), impl->tokenizer);
  check_end_tokens(*impl, config);
  set_end_tokens(*impl, config.end_of_sequence);
  return impl;
}

}  // namespace

std::shared_ptr<Model::Impl> load_text_model(const std::string& name, PrecisionRequest requested,
                                             const BodyLoaders& loaders) {
  const c10::InferenceMode no_autograd;
  const Result<std::string> found = find_model(name);
  if (!found) throw UsageError(found.error().message);
  const std::string& path = *found;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw UsageError(fmt::format("no model at '{}': give a GGUF file or a Hugging Face folder{}",
                                 path, download_hint(path)));
  }
  TextModelSizes sizes = text_model_sizes(path);
  sizes.rows = loaders.rows;
  const ChosenPrecision chosen = text_precision(path, requested, cpu_features(), sizes);
  auto impl = fs::is_directory(path, ignored) ? load_hf_model(path, chosen, loaders)
                                              : load_gguf_model(path, chosen, loaders);
  check_vocabulary(*impl);
  return impl;
}

Model Model::load(const std::string& path, PrecisionRequest requested) {
  return Model(load_text_model(
      path, requested,
      {.from_gguf = [](const Gguf& gguf, Precision p) { return load_decoder(gguf, p); },
       .from_folder = [](const HfConfig& config, const Safetensors& weights, const std::string& at,
                         Precision p) { return load_decoder(config, weights, at, p); }}));
}

std::vector<Token> Model::encode(std::string_view text) const {
  return impl_->tokenizer.encode_prompt(text, Special::kParse);
}

std::string Model::decode(std::span<const Token> tokens) const {
  return impl_->tokenizer.decode(tokens);
}

std::string_view Model::piece(Token token) const { return impl_->tokenizer.piece(token); }

TokenizerInfo Model::tokenizer_info() const {
  const Tokenizer& t = impl_->tokenizer;
  TokenizerInfo out{.pieces = t.vocab_size(),
                    .bos = t.bos(),
                    .eos = t.eos(),
                    .pad = t.pad(),
                    .unknown = t.unknown(),
                    .adds_bos = t.add_bos(),
                    .adds_eos = t.add_eos(),
                    .end = {impl_->end_tokens.begin(), impl_->end_tokens.end()},
                    .chat_template = impl_->chat.templates().standard};
  std::sort(out.end.begin(), out.end.end());
  return out;
}

const std::string& Model::path() const { return impl_->path; }
Precision Model::precision() const { return impl_->lm.precision; }
const ChosenPrecision& Model::chosen_precision() const { return impl_->precision; }
std::size_t Model::vocab() const { return static_cast<std::size_t>(impl_->lm.config.vocab); }
std::size_t Model::context() const { return static_cast<std::size_t>(impl_->lm.config.context); }

}  // namespace forerun
