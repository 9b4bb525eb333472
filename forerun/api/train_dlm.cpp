#include <ATen/ATen.h>
#include <fmt/format.h>

#include "forerun/api/access.h"
#include "forerun/api/draft_head.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/train_answers.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/models/diffusion_lm/diffusion_file.h"
#include "forerun/train.h"
#include "forerun/train/device.h"
#include "forerun/train/dlm/dlm_objective.h"

namespace forerun {
namespace {

void check_dlm(const DlmTraining& o) {
  need(o.layers >= 1, "layers: 1 or more of the target's");
  need(o.block >= 1 && o.block <= 256, "a block of 1 to 256 drafts is supported");
  need(o.draft_vocab >= 0, "draft-vocab: 0 (all tokens) or more");
  need(o.loss.anchors >= 1, "anchors: 1 or more blocks of an answer");
  need(o.weight_bits == 0 || o.weight_bits == 4, "weight-bits: 0 (not rounded) or 4");
  check_answer_options(o.loss);
}

DiffusionLm first_diffusion_lm(const Model& target, const DecoderLm& numbers,
                               const DlmTraining& options, const std::vector<TokenShards>& data) {
  if (!options.init.empty()) {
    DiffusionLm model = load_diffusion_lm(options.init, numbers);
    model.config.block = options.block;
    if (options.weight_bits > 0) model.config.weight_bits = options.weight_bits;
    return model;
  }
  need(options.layers <= numbers.config.layers,
       fmt::format("{} layers are asked for, the target has {}", options.layers,
                   numbers.config.layers));
  need(numbers.config.plain() && numbers.config.no_rope.empty(),
       "a target of this family has no drafter of this kind: those of Llama, Mistral and Qwen do");
  DiffusionLm model =
      diffusion_from_decoder(numbers, options.layers, options.block,
                             draft_vocabulary(impl_of(target), data, options.draft_vocab));
  model.config.weight_bits = options.weight_bits;
  if (options.bidirectional) model.config.attention = DiffusionAttention::kBidirectional;
  return model;
}

std::unique_ptr<Objective> dlm_objective(const Model& target, const std::vector<std::string>& data,
                                         const DlmTraining& options, const TrainOptions& training,
                                         const Note& note) {
  check_dlm(options);
  expect_own_folder(training.out, "dlm", options.init);
  Answers answers = load_answers(target, data, note);
  const bool all = options.init.empty() || reads_numbers(training);
  const DecoderLm numbers = numbers_of(target, all ? DecoderParts::kAll : DecoderParts::kEnds);
  const std::shared_ptr<const DecoderLm> lm = target_of_states(target, numbers, training);
  const auto model =
      std::make_shared<DiffusionLm>(first_diffusion_lm(target, numbers, options, answers.data));
  need(model->config.weight_bits == 0 || model->body.config.takes_four_bits(),
       "weight-bits: the target's sizes are not multiples of 32, as 4 bits need");
  const at::Device device = device_of(training.device);
  need(device.is_cpu() || model->config.attention == DiffusionAttention::kBlock,
       "bidirectional networks are trained on the CPU alone: leave out the device");
  move_to(weights(*model), device);
  model->embedding = model->embedding.to(device);
  model->body.embedding = model->body.embedding.to(device);
  return std::make_unique<DlmObjective>(
      lm, model, std::move(answers.data),
      head_over(numbers, model->output_tokens, model->body.embedding), options.loss,
      answers.target_hash);
}

}  // namespace

TrainReport train_dlm(const std::function<Model()>& target, const std::vector<std::string>& data,
                      const DlmTraining& options, const TrainOptions& training,
                      const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return dlm_objective(target(), data, options, training, note);
  });
}

}  // namespace forerun
