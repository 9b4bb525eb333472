#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "forerun/api/model_file.h"
#include "forerun/api/train_answers.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/base/mapped_file.h"
#include "forerun/base/settings.h"
#include "forerun/formats/token_shards.h"
#include "forerun/formats/tokenizer/tokenizer.h"
#include "forerun/formats/tokenizer/tokenizer_json.h"
#include "forerun/models/gated_lora/mask_model.h"
#include "forerun/models/load_decoder.h"
#include "forerun/models/random_decoder.h"
#include "forerun/models/save_decoder.h"
#include "forerun/train.h"
#include "forerun/train/device.h"
#include "forerun/train/tidar/tidar_model_objective.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";

void check_tidar_model(const TidarModelTraining& o) {
  need(o.block >= 2 && o.block <= 256, "a block of 2 to 256 tokens is supported");
  need(o.markov_rank >= 0 && o.markov_rank <= 1 << 16, "markov: a rank of 0 (none) to 65536");
  need(o.loss.offsets >= 1, "offsets: 1 or more sets of blocks of a document");
  need(std::isfinite(o.loss.alpha) && o.loss.alpha >= 0.0, "alpha: a weight of 0 or more");
  need(o.loss.masks || o.loss.alpha > 0.0, "without masks the text must count: alpha above 0");
  check_answer_options(o.loss);
}

// What the result needs to be loaded as a model: the tokenizer's files, as they are.
ModelFiles files_of(const fs::path& folder, const HfConfig& config) {
  ModelFiles out{.ids = nlohmann::json::object(), .files = {}};
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.config.contains(name)) out.ids[name] = config.config[name];
  }
  for (const char* name : {kTokenizer, kTokenizerConfig, "chat_template.jinja",
                           "generation_config.json", "special_tokens_map.json"}) {
    if (!fs::exists(folder / name)) continue;
    out.files.emplace_back(name, load_file(folder / name).text());
  }
  return out;
}

// A folder whose tokenizer cannot be read, or is another model's, would train for nothing.
void check_tokenizer(const ModelFiles& files, const fs::path& folder, std::int64_t vocab) {
  const auto text = [&](const char* name) -> std::string_view {
    for (const auto& [file, bytes] : files.files) {
      if (file == name) return bytes;
    }
    return {};
  };
  const fs::path path = folder / kTokenizer;
  const std::string_view config = text(kTokenizerConfig);
  if (text(kTokenizer).empty()) {
    throw UsageError(fmt::format(
        "{} is missing: --full trains a model in a Hugging Face folder, with its tokenizer",
        path.string()));
  }
  Result<TokenizerSpec> spec =
      parse_tokenizer_json(text(kTokenizer), config.empty() ? "{}" : config);
  if (!spec) throw FormatError(path.string() + ": " + spec.error().message);
  const Result<Tokenizer> tokenizer = make_tokenizer(*std::move(spec));
  if (!tokenizer) throw FormatError(path.string() + ": " + tokenizer.error().message);
  if (tokenizer->vocab_size() <= static_cast<std::size_t>(vocab)) return;
  throw FormatError(
      fmt::format("{}: the tokenizer has {} entries, the model scores {}: they do not belong "
                  "together",
                  path.string(), tokenizer->vocab_size(), vocab));
}

DecoderLm first_decoder(const std::string& folder, const HfConfig& config, bool random,
                        std::uint64_t seed) {
  const Result<DecoderConfig> sizes = parse_decoder_config(config.config);
  if (!sizes) throw FormatError(folder + ": " + sizes.error().message);
  if (!can_be_saved(*sizes)) {
    throw UsageError(
        fmt::format("{}: what is trained is written as a Hugging Face folder, which "
                    "models of {} cannot be yet",
                    folder, config.config.value("model_type", "this kind")));
  }
  if (random) return random_decoder(*sizes, seed);
  DecoderLm out = load_decoder(config, load_safetensors(folder), folder, Precision::kF32);
  // Each with memory of its own: an optimizer changes it.
  for (const ModelWeight& w : weights(out)) *w.tensor = w.tensor->to(at::kFloat, false, true);
  return out;
}

// Those that the model was trained with, if they are of this design.
GatedLora first_masks(const std::string& folder, const HfConfig& config, const DecoderLm& decoder,
                      const TidarModelTraining& o, std::uint64_t seed) {
  const GatedLoraConfig c =
      mask_config(decoder.config, o.block, o.first_slot ? 0 : 1, o.markov_rank);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed + 1);
  // The mean of random rows is next to nothing, which a norm would blow up.
  const at::Tensor mean =
      o.random ? at::randn({c.hidden}, generator, at::TensorOptions(at::kFloat)).mul_(0.02)
               : decoder.embedding.mean(0, false, at::kFloat);
  GatedLora out = initial_gated_lora(c, mean * decoder.config.embedding_scale, seed);
  if (o.random || !is_mask_model(config.config)) return out;
  const GatedLora before = load_masks(folder, decoder.config);
  out.mask_embedding = before.mask_embedding;
  if (before.config.markov_rank == c.markov_rank) {
    out.markov_w1 = before.markov_w1;
    out.markov_w2 = before.markov_w2;
  }
  return out;
}

void note_authors(const std::string& target, bool random, const std::vector<std::string>& folders,
                  const Note& note) {
  const std::string hash = random ? "" : hash_of_weights(target);
  for (const std::string& folder : folders) {
    const auto settings = load_settings(fs::path(folder) / kDistillManifest);
    if (settings && settings->value("target_hash", nlohmann::json()) == hash) continue;
    note(
        fmt::format("{}: written by another model; that its tokens are those of {} is taken on "
                    "trust",
                    folder, target));
  }
}

std::unique_ptr<Objective> tidar_model_objective(const std::string& target,
                                                 const std::vector<std::string>& data,
                                                 const TidarModelTraining& options,
                                                 const TrainOptions& training, const Note& note) {
  check_tidar_model(options);
  std::error_code ignored;
  if (!fs::is_directory(target, ignored)) {
    throw UsageError(
        fmt::format("no folder at '{}': --full trains a model in a Hugging Face folder", target));
  }
  expect_own_folder(training.out, "tidar-full");
  const HfConfig config = load_hf_config(target);
  auto decoder =
      std::make_shared<DecoderLm>(first_decoder(target, config, options.random, training.seed));
  ModelFiles files = files_of(target, config);
  check_tokenizer(files, target, decoder->config.vocab);
  std::vector<TokenShards> documents = load_documents(data, decoder->config.vocab);
  note_authors(target, options.random, data, note);
  auto masks =
      std::make_shared<GatedLora>(first_masks(target, config, *decoder, options, training.seed));
  const at::Device device = device_of(training.device);
  move_to(weights(*decoder), device);
  move_to(weights(*masks), device);
  return std::make_unique<TidarModelObjective>(
      std::move(decoder), std::move(masks), std::move(documents), options.loss, std::move(files));
}

}  // namespace

TrainReport train_tidar_model(const std::string& target, const std::vector<std::string>& data,
                              const TidarModelTraining& options, const TrainOptions& training,
                              const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return tidar_model_objective(target, data, options, training, note);
  });
}

}  // namespace forerun
