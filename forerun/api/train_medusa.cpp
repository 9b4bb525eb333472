#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/draft_head.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/train_answers.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/models/feature_layers.h"
#include "forerun/models/medusa/init_medusa.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/train.h"
#include "forerun/train/device.h"
#include "forerun/train/medusa/medusa_objective.h"

namespace forerun {
namespace {

// Bounds of sizes are those of the files that heads are loaded from.
void check(const MedusaTraining& o) {
  need(o.heads >= 1 && o.heads <= 64, "heads: 1 to 64 are supported");
  need(o.width >= 1 && o.width <= 1 << 20, "width: 1 to 1048576 is supported");
  need(o.intermediate >= 1 && o.intermediate <= 1 << 20, "mlp: 1 to 1048576 is supported");
  need(o.draft_vocab >= 0, "draft-vocab: 0 (all tokens) or more");
  need(o.markov_rank >= 0 && o.markov_rank <= 1 << 16, "markov: a rank of 0 (none) to 65536");
  need(o.features.size() <= 64, "features: at most 64 blocks are supported");
  need(o.loss.anchors >= 1, "anchors: 1 or more places of an answer");
  need(o.weight_bits == 0 || o.weight_bits == 4, "weight-bits: 0 (not rounded) or 4");
  check_answer_options(o.loss);
}

// Of five even blocks the second, fourth and fifth.
std::vector<std::int64_t> default_features(std::int64_t target_layers) {
  const std::vector<std::int64_t> all = default_feature_layers(target_layers, 5);
  std::vector<std::int64_t> out = {all[1], all[3], all[4]};
  out.erase(std::unique(out.begin(), out.end()), out.end());  // of a few blocks some are the same
  return out;
}

MedusaConfig config_of(const DecoderConfig& t, const MedusaTraining& o, std::int64_t draft_vocab) {
  MedusaConfig c;
  c.hidden = t.hidden;
  c.vocab = t.vocab;
  c.target_layers = t.layers;
  c.norm_eps = t.norm_eps;
  c.width = o.width;
  c.intermediate = o.intermediate;
  c.heads = o.heads;
  c.draft_vocab = draft_vocab;
  c.markov_rank = o.markov_rank;
  c.weight_bits = o.weight_bits;
  c.feature_layers = o.features.empty() ? default_features(t.layers) : o.features;
  check_feature_layers(c.feature_layers, t);
  return c;
}

// What training begins with.
Medusa first_network(const Model::Impl& target, const DecoderLm& numbers,
                     const MedusaTraining& options, std::uint64_t seed,
                     const std::vector<TokenShards>& data) {
  if (!options.init.empty()) {
    Medusa model = load_medusa(options.init, numbers);
    if (options.weight_bits > 0) model.config.weight_bits = options.weight_bits;
    return model;
  }
  const at::Tensor drafted = draft_vocabulary(target, data, options.draft_vocab);
  const MedusaConfig config = config_of(numbers.config, options,
                                        drafted.defined() ? drafted.numel() : numbers.config.vocab);
  return medusa_from_target(config, numbers, seed, drafted);
}

std::unique_ptr<Objective> objective_of(const Model& target, const std::vector<std::string>& data,
                                        const MedusaTraining& options, const TrainOptions& training,
                                        const Note& note) {
  check(options);
  need(options.loss.state_store.empty() || !reads_numbers(training),
       "state-store: states that a GPU computes are not stored; leave out one of them");
  expect_own_folder(training.out, "medusa", options.init);
  Answers answers = load_answers(target, data, note);
  const DecoderLm whole =
      numbers_of(target, reads_numbers(training) ? DecoderParts::kAll : DecoderParts::kEnds);
  const std::shared_ptr<const DecoderLm> lm = target_of_states(target, whole, training);
  Medusa model = first_network(impl_of(target), whole, options, training.seed, answers.data);
  need(model.config.weight_bits == 0 || model.config.takes_four_bits(),
       "weight-bits: the sizes are not multiples of 32, as 4 bits need");
  // What was loaded for inference cannot take part in training.
  const at::Device device = device_of(training.device);
  for (const ModelWeight& w : weights(model)) *w.tensor = w.tensor->clone();
  model.embedding = model.embedding.clone().to(device);
  move_to(weights(model), device);
  const at::Tensor rows = head_rows(whole, model.draft_to_target).clone();
  // Without the map: of a law no share outside the draft vocabulary is asked for.
  const TargetHead laws = head_over(whole, {}, rows.to(device));
  return std::make_unique<MedusaObjective>(lm, std::make_shared<Medusa>(std::move(model)),
                                           std::move(answers.data), laws, options.loss,
                                           answers.target_hash);
}

}  // namespace

TrainReport train_medusa(const std::function<Model()>& target, const std::vector<std::string>& data,
                         const MedusaTraining& options, const TrainOptions& training,
                         const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return objective_of(target(), data, options, training, note);
  });
}

TrainReport train_medusa(const Model& target, const std::vector<std::string>& data,
                         const MedusaTraining& options, const TrainOptions& training,
                         const TrainListener& listener) {
  return train_medusa([&] { return target; }, data, options, training, listener);
}

}  // namespace forerun
