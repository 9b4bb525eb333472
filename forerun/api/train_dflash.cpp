#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/api/model_impl.h"
#include "forerun/forerun.h"
#include "forerun/formats/token_shards.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/dflash/init_dflash.h"
#include "forerun/train/dflash/dflash_objective.h"
#include "forerun/train/trainer.h"

namespace forerun {
namespace {

// How often the target says each token, over all answers.
std::vector<std::uint64_t> frequencies(const std::vector<TokenShards>& data, std::size_t vocab) {
  std::vector<std::uint64_t> out(vocab, 0);
  for (const TokenShards& shards : data) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto answer = shards.tokens(i).subspan(static_cast<std::size_t>(shards.prompt(i)));
      for (const Token t : answer) {
        if (t >= 0 && static_cast<std::size_t>(t) < vocab) ++out[static_cast<std::size_t>(t)];
      }
    }
  }
  return out;
}

// The tokens that are said most, rising; those that end a text always.
at::Tensor draft_vocabulary(const Model::Impl& target, const std::vector<TokenShards>& data,
                            std::int64_t size) {
  const auto vocab = static_cast<std::size_t>(target.lm.config.vocab);
  if (size <= 0 || static_cast<std::size_t>(size) >= vocab) return {};
  auto counts = frequencies(data, vocab);
  for (const Token t : target.end_tokens) counts[static_cast<std::size_t>(t)] += 1ULL << 40;
  std::vector<std::int64_t> order(vocab);
  for (std::size_t i = 0; i < vocab; ++i) order[i] = static_cast<std::int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(size));
  std::sort(order.begin(), order.end());
  return at::tensor(order, at::kLong);
}

DFlashConfig config_of(const DecoderConfig& t, const DFlashTraining& o, std::int64_t draft_vocab) {
  constexpr std::int64_t kFeatures = 5;
  DFlashConfig c = dflash_config_for(t, o.layers, kFeatures, o.block);
  c.draft_vocab = draft_vocab;
  if (!o.features.empty()) c.feature_layers = o.features;
  for (const std::int64_t layer : c.feature_layers) {
    if (layer >= 0 && layer < t.layers) continue;
    throw UsageError(
        fmt::format("feature layer {}: the target has blocks 0 to {}", layer, t.layers - 1));
  }
  c.predicts_next = o.predicts_next;
  c.markov_rank = o.markov_rank;
  c.confidence = o.confidence;
  c.slot_state = o.slot_state;
  return c;
}

// States of some documents, to measure on how large the target's queries and keys are.
at::Tensor sample_states(const std::shared_ptr<const DecoderLm>& target, const TargetHead& head,
                         const std::vector<std::int64_t>& layers,
                         const std::vector<TokenShards>& data) {
  constexpr std::size_t kDocuments = 8, kTokens = 256;
  std::vector<std::span<const Token>> documents;
  for (const TokenShards& shards : data) {
    for (std::size_t i = 0; i < shards.size() && documents.size() < kDocuments; ++i) {
      const auto tokens = shards.tokens(i);
      if (!tokens.empty()) documents.push_back(tokens.first(std::min(tokens.size(), kTokens)));
    }
  }
  if (documents.empty()) throw UsageError("the data holds no document: run forerun distill first");
  return TargetStates(target, head, layers).of(documents).features;
}

// What training begins with.
DFlash first_network(const Model::Impl& target, const DecoderLm& numbers, const TargetHead& head,
                     const DFlashTraining& options, std::uint64_t seed,
                     const std::vector<TokenShards>& data) {
  if (!options.init.empty()) {
    DFlash model = load_dflash(options.init, DFlashTarget(numbers));
    model.config.block = options.block;
    for (const DFlashWeight& w : weights(model)) *w.tensor = w.tensor->clone();
    return model;
  }
  const at::Tensor drafted = draft_vocabulary(target, data, options.draft_vocab);
  const DFlashConfig config = config_of(numbers.config, options,
                                        drafted.defined() ? drafted.numel() : numbers.config.vocab);
  if (!options.from_target) return random_dflash(config, DFlashTarget(numbers), seed, drafted);
  const std::shared_ptr<const DecoderLm> lm(std::shared_ptr<const void>(), &target.lm);
  const at::Tensor states = sample_states(lm, head, config.feature_layers, data);
  return dflash_from_target(numbers, config, states, seed, drafted);
}

std::vector<TokenShards> load_data(const std::vector<std::string>& folders) {
  if (folders.empty()) throw UsageError("no data: give folders that forerun distill wrote");
  std::vector<TokenShards> out;
  for (const std::string& folder : folders) out.push_back(TokenShards::load(folder));
  return out;
}

}  // namespace

TrainReport train_dflash(const Model& target, const std::vector<std::string>& data,
                         const DFlashTraining& options, const TrainOptions& training,
                         const TrainListener& listener) {
  Ranks ranks = Ranks::join();
  set_threads(training.threads);
  std::vector<TokenShards> shards = load_data(data);
  // Weights as numbers: embedding, head, and what the network begins as.
  const Model numbers = Model::load(target.path(), Precision::kF32);
  const DecoderLm& whole = numbers.impl().lm;
  const std::shared_ptr<const DecoderLm> lm(std::shared_ptr<const void>(), &target.impl().lm);
  TargetHead head{.norm = whole.final_norm.weight.to(at::kFloat),
                  .norm_eps = whole.final_norm.eps,
                  .rows = {},
                  .softcap = whole.config.logit_softcap};
  DFlash model = first_network(target.impl(), whole, head, options, training.seed, shards);
  // What was loaded for inference cannot take part in training.
  model.embedding = model.embedding.clone();
  model.head = model.head.clone();
  head.rows = model.head;
  DFlashObjective objective(
      lm, std::make_shared<DFlash>(std::move(model)), std::move(shards), head, options.loss,
      fmt::format("{} {}", std::filesystem::path(target.path()).filename().string(),
                  name_of(target.precision())));
  return train(objective, training, listener, ranks);
}

}  // namespace forerun
