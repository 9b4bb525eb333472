#include "forerun/train/mar/mar_objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "forerun/models/mar/mar_file.h"
#include "forerun/train/images/image_batch.h"
#include "forerun/train/mar/calibrate.h"
#include "forerun/train/mar/mar_batch.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {

constexpr std::size_t kMostHeldOut = 1024;  // images
constexpr double kUnknownShare = 0.83;  // of the tokens of the masked form, on average (MarBatch)

// What a network predicts of the learned tokens of a batch.
at::Tensor predicted(const Mar& m, const MarBatch& batch, const at::Tensor& x) {
  return run_head(m.head, m.config, batch.learned(x), batch.learned(batch.time),
                  batch.learned(conditions_of(m, batch)));
}

// The mean over draws and coordinates, [tokens].
at::Tensor squared_distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).square().mean({1, 2});
}

}  // namespace

MarObjective::MarObjective(std::shared_ptr<Mar> model, MarImages training, MarImages held_out,
                           const MarLoss& loss, std::shared_ptr<const Mar> target)
    : model_(std::move(model)),
      training_(std::move(training)),
      held_out_(std::move(held_out)),
      options_(loss),
      target_(std::move(target)) {
  const MarConfig& c = model_->config;
  if (c.prediction != MarPrediction::kVelocity) {
    throw std::invalid_argument("only networks that predict velocities are trained");
  }
  if (target_ && c.form != MarForm::kCausal) {
    throw std::invalid_argument("a draft is of the causal form");
  }
  if (training_.size() == 0) throw std::invalid_argument("there is no image to learn from");
  for (const MarImages* images : {&training_, &held_out_}) {
    if (images->size() == 0) continue;
    check_images({c.side, c.channels, c.classes, "MAR network"}, images->shape("data"));
  }
  if (!target_) return;
  const std::string why = why_other_tokens(c, target_->config);
  if (!why.empty()) throw std::invalid_argument("the draft does not fit its target: " + why);
  if (target_->config.calibration.empty()) {
    throw std::invalid_argument("the target has no calibrated variance for its draft to share");
  }
}

std::size_t MarObjective::held_out() const {
  return std::min(kMostHeldOut, static_cast<std::size_t>(held_out_.size()));
}

std::vector<Parameter> MarObjective::parameters() {
  return parameters_of(weights(*model_), [](const ModelWeight& w) {
    return w.shape.size() == 2 && (w.name.find("_blocks.") != std::string::npos);
  });
}

LossSum MarObjective::loss_of(const MarImages& images, std::span<const std::size_t> which,
                              std::uint64_t seed, double drop, bool flip) const {
  const MarBatch batch = mar_batch(model_->config, images, which, seed,
                                   {.draws = options_.draws, .drop = drop, .flip = flip});
  const NoisyTokens noisy =
      noisy_tokens(model_->config.prediction, batch.tokens, batch.time, batch.noise);
  const at::Tensor y = predicted(*model_, batch, noisy.x);
  const at::Tensor error = squared_distance(y, batch.learned(noisy.wanted));
  const auto of_images = [](const at::Tensor& tokens) { return tokens.detach().sum(); };
  const double tokens = static_cast<double>(error.numel());
  LossSum out;
  out.weight = static_cast<double>(which.size());
  out.tokens = static_cast<std::int64_t>(which.size());
  out.figures = {{"data", of_images(error).item<double>(), tokens}};
  at::Tensor loss = error;
  if (target_) {
    at::Tensor theirs;
    {
      const c10::NoGradGuard no_grad;
      theirs = predicted(*target_, batch, noisy.x);
    }
    const at::Tensor distance = squared_distance(y, theirs);
    out.figures.push_back({"target", of_images(distance).item<double>(), tokens});
    loss = (1.0 - options_.distill) * error + options_.distill * distance;
  }
  out.loss = loss.sum() * (out.weight / tokens);
  return out;
}

LossSum MarObjective::loss(std::span<const std::size_t> examples, std::uint64_t seed) {
  return loss_of(training_, examples, seed, options_.drop, options_.flip);
}

LossSum MarObjective::held_out_loss(std::span<const std::size_t> examples) {
  return loss_of(held_out_, examples, kHeldOutSeed, 0.0, false);
}

double MarObjective::flops(std::span<const std::size_t> examples) const {
  const auto image = [&](const MarConfig& c) {
    const MarHeadWork head = mar_head_work(c);
    const double learned = c.form == MarForm::kMasked ? kUnknownShare : 1.0;
    return mar_backbone_work(c, 1.0 - learned) +
           learned * static_cast<double>(c.tokens()) *
               (head.condition + static_cast<double>(options_.draws) * head.transition);
  };
  // Forward, and back for weights and inputs.
  double out = 6.0 * image(model_->config);
  if (target_) out += 2.0 * image(target_->config);
  return static_cast<double>(examples.size()) * out;
}

std::string MarObjective::fingerprint() const {
  const MarConfig& c = model_->config;
  return fmt::format(
      "{}{} depth={} hidden={} heads={} head={}x{} patch={} input={}x{} order={} modulation={} "
      "noise={} classes={} draws={} drop={} flip={} distill={} target={} data={} held_out={}",
      target_ ? "cspd" : "mar",
      c.form == MarForm::kMasked ? fmt::format(" masked={}+{}", c.decoder_depth, c.buffer) : "",
      c.depth, c.hidden, c.heads, c.head_blocks, c.head_width, c.patch, c.channels, c.side,
      c.order.empty() ? "rows" : "scattered",
      c.modulation == MarModulation::kJoint ? "joint" : "separate", c.noise, c.classes,
      options_.draws, options_.drop, options_.flip, options_.distill,
      target_ ? digest_of(*target_) : "none", training_.digest(), held_out_.digest());
}

void MarObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                        const nlohmann::json& provenance) {
  Mar result = with_values(*model_, values);
  if (target_) {
    // One variance for both chains: they then differ in means alone.
    result.config.calibration = target_->config.calibration;
    result.config.follows = digest_of(*target_);
  } else {
    result.config.calibration = calibrate(result, held_out_.size() > 0 ? held_out_ : training_);
  }
  save_mar(folder, result, provenance);
}

}  // namespace forerun
