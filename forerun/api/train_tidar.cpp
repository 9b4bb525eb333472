#include <ATen/ATen.h>

#include "forerun/api/model_file.h"
#include "forerun/api/train_answers.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/text.h"
#include "forerun/train.h"
#include "forerun/train/device.h"
#include "forerun/train/tidar/tidar_objective.h"

namespace forerun {
namespace {

void check(const TidarTraining& o) {
  need(o.rank >= 1 && o.rank <= 1 << 16, "lora: a rank of 1 to 65536");
  need(o.block >= 2 && o.block <= 256, "a block of 2 to 256 tokens is supported");
  need(o.markov_rank >= 0 && o.markov_rank <= 1 << 16, "markov: a rank of 0 (none) to 65536");
  need(o.loss.offsets >= 1, "offsets: 1 or more sets of blocks of an answer");
  check_answer_options(o.loss);
}

GatedLora first_adapters(const DecoderLm& decoder, const TidarTraining& options,
                         const std::string& hash, std::uint64_t seed) {
  need(decoder.config.dense.empty(),
       "tidar: adapters of models with experts in some layers are not supported; train the whole "
       "model (--full)");
  if (!options.init.empty()) return load_gated_lora(options.init, decoder.config, hash);
  GatedLoraConfig c = gated_lora_config(decoder.config);
  c.target = hash;
  c.rank = options.rank;
  c.block = options.block;
  c.first_slot = options.first_slot ? 0 : 1;
  c.markov_rank = options.markov_rank;
  const at::Tensor mean = decoder.embedding.mean(0, false, at::kFloat).cpu();
  return initial_gated_lora(c, mean * decoder.config.embedding_scale, seed);
}

std::unique_ptr<Objective> objective_of(const Model& target, const std::vector<std::string>& data,
                                        const TidarTraining& options, const TrainOptions& training,
                                        const Note& note) {
  check(options);
  expect_own_folder(training.out, "tidar", options.init);
  Answers answers = load_answers(target, data, note);
  const DecoderLm numbers = numbers_of(target, DecoderParts::kAll);
  need(numbers.config.recurrent.none(),
       "tidar: targets with recurrent layers are not supported: train medusa or dflash instead");
  const auto decoder = frozen_numbers(numbers, training);
  auto lora = std::make_shared<GatedLora>(
      first_adapters(*decoder, options, answers.target_hash, training.seed));
  move_to(weights(*lora), device_of(training.device));
  return std::make_unique<TidarObjective>(decoder, std::move(lora), std::move(answers.data),
                                          options.loss);
}

}  // namespace

TrainReport train_tidar(const std::function<Model()>& target, const std::vector<std::string>& data,
                        const TidarTraining& options, const TrainOptions& training,
                        const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return objective_of(target(), data, options, training, note);
  });
}

TrainReport train_tidar(const Model& target, const std::vector<std::string>& data,
                        const TidarTraining& options, const TrainOptions& training,
                        const TrainListener& listener) {
  return train_tidar([&] { return target; }, data, options, training, listener);
}

}  // namespace forerun
