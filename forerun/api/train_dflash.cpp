#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forerun/api/access.h"
#include "forerun/api/draft_head.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/train_answers.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/formats/token_shards.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/dflash/init_dflash.h"
#include "forerun/text.h"
#include "forerun/train.h"
#include "forerun/train/device.h"
#include "forerun/train/dflash/dflash_objective.h"

namespace forerun {
namespace {

// Bounds of sizes are those of the files that drafters are loaded from.
void check(const DFlashTraining& o) {
  need(o.layers >= 1 && o.layers <= 256, "layers: 1 to 256 are supported");
  need(o.block >= 2 && o.block <= 256, "a block of 2 to 256 slots is supported");
  need(o.draft_vocab >= 0, "draft-vocab: 0 (all tokens) or more");
  need(o.markov_rank >= 0 && o.markov_rank <= 1 << 16, "markov: a rank of 0 (none) to 65536");
  need(o.markov_head == "vanilla" || o.markov_head == "gated",
       "markov-head: vanilla and gated are supported");
  need(o.selector_rank >= 0 && o.selector_rank <= 1 << 16, "selector: a rank of 0 (none) to 65536");
  need(o.loss.anchors >= 1, "anchors: 1 or more blocks of an answer");
  need(o.weight_bits == 0 || o.weight_bits == 4, "weight-bits: 0 (not rounded) or 4");
  check_answer_options(o.loss);
  need(o.loss.law_loss == "cross-entropy" || o.loss.law_loss == "l1",
       "law-loss: cross-entropy and l1 are supported");
  need(std::isfinite(o.loss.confidence) && o.loss.confidence >= 0.0,
       "the confidence head's loss counts 0 or more");
}

DFlashConfig config_of(const DecoderConfig& t, const DFlashTraining& o, std::int64_t draft_vocab) {
  constexpr std::int64_t kFeatures = 5;
  // A target too small for the default choice is good enough where the layers are named.
  DFlashConfig c = dflash_config_for(t, o.layers, o.features.empty() ? kFeatures : 1, o.block);
  c.draft_vocab = draft_vocab;
  if (!o.features.empty()) c.feature_layers = o.features;
  check_feature_layers(c.feature_layers, t);
  c.predicts_next = o.predicts_next;
  c.selector_rank = o.selector_rank;
  c.selector_top_k = std::min(c.selector_top_k, draft_vocab);
  c.markov_rank = o.selector_rank > 0 ? 0 : o.markov_rank;
  c.markov_gated = c.markov_rank > 0 && o.markov_head == "gated";
  c.confidence = o.confidence;
  c.slot_state = o.slot_state;
  c.weight_bits = o.weight_bits;
  return c;
}

// States of some documents, to measure on how large the target's queries and keys are.
at::Tensor sample_states(const std::shared_ptr<const DecoderLm>& target, const TargetHead& head,
                         const std::vector<std::int64_t>& layers,
                         const std::vector<TokenShards>& data) {
  constexpr std::size_t kDocuments = 8;
  const auto most = static_cast<std::size_t>(std::min<std::int64_t>(256, target->config.context));
  std::vector<std::span<const Token>> documents;
  for (const TokenShards& shards : data) {
    for (std::size_t i = 0; i < shards.size() && documents.size() < kDocuments; ++i) {
      const auto tokens = shards.tokens(i);
      if (!tokens.empty()) documents.push_back(tokens.first(std::min(tokens.size(), most)));
    }
  }
  if (documents.empty()) throw UsageError("the data holds no document: run forerun distill first");
  return TargetStates(target, head, layers).of(documents).features;
}

// A drafter to go on from. Embedding and head are the target's, in training as in what is saved: a
// drafter with others would be trained as it is never used.
DFlash continued(const DecoderLm& numbers, const DFlashTraining& options) {
  DFlashTarget sizes(numbers);
  sizes.embedding = sizes.head = at::Tensor();
  DFlash model = load_dflash(options.init, sizes);
  const at::Tensor embedding = numbers.embedding.to(at::kFloat),
                   head = head_rows(numbers, model.draft_to_target);
  const auto other = [](const at::Tensor& own, const at::Tensor& targets) {
    return own.defined() && !at::equal(own, targets);
  };
  if (other(model.embedding, embedding) || other(model.head, head)) {
    throw UsageError(
        fmt::format("{}: has an embedding or a head of its own, which training does not support: "
                    "go on from a drafter that shares its target's",
                    options.init));
  }
  model.embedding = embedding;
  model.head = head;
  model.config.block = options.block;
  if (options.weight_bits > 0) model.config.weight_bits = options.weight_bits;
  for (const ModelWeight& w : weights(model)) *w.tensor = w.tensor->clone();
  if (options.conv) add_convolutions(model);
  return model;
}

// What training begins with.
DFlash first_network(const Model::Impl& target, const DecoderLm& numbers, const TargetHead& head,
                     const DFlashTraining& options, std::uint64_t seed,
                     const std::vector<TokenShards>& data) {
  if (!options.init.empty()) return continued(numbers, options);
  const at::Tensor drafted = draft_vocabulary(target, data, options.draft_vocab);
  const DFlashConfig config = config_of(numbers.config, options,
                                        drafted.defined() ? drafted.numel() : numbers.config.vocab);
  DFlash model;
  if (options.from_target) {
    const std::shared_ptr<const DecoderLm> lm(std::shared_ptr<const void>(), &target.lm);
    const at::Tensor states = sample_states(lm, head, config.feature_layers, data);
    model = dflash_from_target(numbers, config, states, seed, drafted);
  } else {
    model = random_dflash(config, DFlashTarget(numbers), seed, drafted);
  }
  if (options.conv) add_convolutions(model);
  return model;
}

std::unique_ptr<Objective> objective_of(const Model& target, const std::vector<std::string>& data,
                                        const DFlashTraining& options, const TrainOptions& training,
                                        const Note& note) {
  check(options);
  need(options.loss.state_store.empty() || !reads_numbers(training),
       "state-store: states that a GPU computes are not stored; leave out one of them");
  expect_own_folder(training.out, "dflash", options.init);
  Answers answers = load_answers(target, data, note);
  // Weights as numbers: embedding, head, and what the network begins as.
  const bool begins_as_target = options.init.empty() && options.from_target;
  const bool all = begins_as_target || reads_numbers(training);
  const DecoderLm whole = numbers_of(target, all ? DecoderParts::kAll : DecoderParts::kEnds);
  const std::shared_ptr<const DecoderLm> lm = target_of_states(target, whole, training);
  // The states alone are of use to begin with.
  DFlash model = first_network(impl_of(target), whole, head_over(whole, {}, {}), options,
                               training.seed, answers.data);
  need(model.config.weight_bits == 0 || model.config.takes_four_bits(),
       "weight-bits: the target's sizes are not multiples of 32, as 4 bits need");
  // What was loaded for inference cannot take part in training.
  const at::Device device = device_of(training.device);
  model.embedding = model.embedding.clone().to(device);
  model.head = model.head.clone().to(device);
  move_to(weights(model), device);
  const TargetHead head = head_over(whole, model.draft_to_target, model.head);
  return std::make_unique<DFlashObjective>(lm, std::make_shared<DFlash>(std::move(model)),
                                           std::move(answers.data), head, options.loss,
                                           answers.target_hash);
}

}  // namespace

TrainReport train_dflash(const std::function<Model()>& target, const std::vector<std::string>& data,
                         const DFlashTraining& options, const TrainOptions& training,
                         const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return objective_of(target(), data, options, training, note);
  });
}

TrainReport train_dflash(const Model& target, const std::vector<std::string>& data,
                         const DFlashTraining& options, const TrainOptions& training,
                         const TrainListener& listener) {
  return train_dflash([&] { return target; }, data, options, training, listener);
}

}  // namespace forerun
