#include "forerun/train/free/free_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "forerun/core/rng_key.h"
#include "forerun/models/ddpm_schedule.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {

constexpr double kTiny = 1e-12;  // under a root, a logarithm

const DdpmStep& step_at(const DdpmSchedule& schedule, std::int64_t time) {
  return schedule.step(DdpmSchedule::kTrained - 1 - time);
}

// [batch, 1, 1, 1] of a number of each image's transition.
template <class F>
at::Tensor by_image(const at::Tensor& time, F&& f) {
  std::vector<float> out;
  const auto* const t = time.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < time.numel(); ++i) out.push_back(static_cast<float>(f(t[i])));
  return at::tensor(out, at::kFloat).view({-1, 1, 1, 1});
}

// The states one sampling step later, and the noise of that step, keyed by image.
std::pair<at::Tensor, at::Tensor> stepped(const DdpmSchedule& schedule, const at::Tensor& x,
                                          const at::Tensor& noise, const at::Tensor& time,
                                          std::span<const std::size_t> which, std::uint64_t seed,
                                          std::int64_t depth) {
  at::Tensor fresh = at::empty_like(x);
  const std::int64_t values = x.numel() / x.size(0);
  for (std::size_t i = 0; i < which.size(); ++i) {
    const RngKey key{.seed = seed,
                     .request = static_cast<std::uint32_t>(which[i]),
                     .position = static_cast<std::uint32_t>(depth)};
    key.fill_normal(Purpose::kResidual,
                    {fresh.data_ptr<float>() + static_cast<std::int64_t>(i) * values,
                     static_cast<std::size_t>(values)});
  }
  const auto of_step = [&](double DdpmStep::*part) {
    return by_image(time, [&](std::int64_t t) { return step_at(schedule, t).*part; });
  };
  const at::Tensor mean = of_step(&DdpmStep::mean_x) * x + of_step(&DdpmStep::mean_noise) * noise;
  return {mean + of_step(&DdpmStep::sigma) * fresh, fresh};
}

// As ddpm_predicted_x0 and ddpm_noise_of, for a batch at different times.
at::Tensor predicted(const DdpmSchedule& s, const at::Tensor& x, const at::Tensor& noise,
                     const at::Tensor& time) {
  return by_image(time, [&](std::int64_t t) { return step_at(s, t).x0_x; }) * x +
         by_image(time, [&](std::int64_t t) { return step_at(s, t).x0_noise; }) * noise;
}
at::Tensor frozen_noise(const DdpmSchedule& s, const at::Tensor& image, const at::Tensor& x,
                        const at::Tensor& time) {
  return (image - by_image(time, [&](std::int64_t t) { return step_at(s, t).x0_x; }) * x) /
         by_image(time, [&](std::int64_t t) { return step_at(s, t).x0_noise; });
}

at::Tensor units(const DdpmSchedule& s, const DitConfig& c, const at::Tensor& time) {
  return by_image(time, [&](std::int64_t t) { return free_unit(step_at(s, t), c); });
}

// [batch]
at::Tensor kappas(const DdpmSchedule& s, const at::Tensor& time) {
  return by_image(time, [&](std::int64_t t) { return step_at(s, t).kappa; }).flatten();
}

// Both halves of a batch as one: all images with their class, then all without.
struct Halves {
  Halves(const Guidance& g, const DitConfig& c, const at::Tensor& label) : guidance(g) {
    labels = g.on() ? at::cat({label, at::full_like(label, c.classes)}) : label;
  }
  at::Tensor of(const at::Tensor& x) const { return guidance.on() ? at::cat({x, x}) : x; }
  at::Tensor guided(const at::Tensor& noise) const {
    return forerun::guided(noise.unflatten(0, {guidance.halves(), -1}), guidance);
  }
  Guidance guidance;
  at::Tensor labels;
};

}  // namespace

FreeObjective::FreeObjective(std::shared_ptr<const Dit> target,
                             std::shared_ptr<FreeNetwork> network, LabelledImages training,
                             LabelledImages held_out, const FreeTraining& options,
                             std::shared_ptr<const Bf16Dit> packed)
    : target_(std::move(target)),
      packed_(std::move(packed)),
      network_(std::move(network)),
      training_(std::move(training)),
      held_out_(std::move(held_out)),
      options_(options) {
  check_images(shape_of(target_->config), training_, held_out_);
}

std::vector<Parameter> FreeObjective::parameters() {
  return parameters_of(weights(*network_), [](const ModelWeight& w) {
    return w.shape.size() == 2 && w.name.starts_with("block.");
  });
}

FreeObjective::Answer FreeObjective::ask(const at::Tensor& x, const at::Tensor& time,
                                         const at::Tensor& label) const {
  const at::NoGradGuard frozen;
  if (packed_) {
    const auto numbers = [](const at::Tensor& t) {
      return std::span(t.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(t.numel()));
    };
    const GuidedOutput out = packed_->run({x, numbers(time), numbers(label)}, guidance());
    // Copies, which autograd may keep.
    return {out.noise.clone(), out.feature.transpose(0, 1).clone().flatten(0, 1)};
  }
  const Halves h(guidance(), target_->config, label);
  const DitOutput out = run_dit(*target_, h.of(x), h.of(time), h.labels);
  return {h.guided(out.noise.to(at::kFloat)), out.feature.to(at::kFloat)};
}

FreeObjective::Answer FreeObjective::say(const at::Tensor& x, const at::Tensor& feature,
                                         const at::Tensor& time, const at::Tensor& label,
                                         const at::Tensor& fresh) const {
  const Halves h(guidance(), target_->config, label);
  const DitOutput out = run_free(*network_, h.of(x), feature, h.of(time), h.labels,
                                 network_->frozen_image ? h.of(fresh) : fresh);
  return {h.guided(out.noise), out.feature};
}

LossSum FreeObjective::loss_of(const LabelledImages& images, std::span<const std::size_t> which,
                               std::uint64_t seed, const NoiseOptions& noise_options) const {
  static const DdpmSchedule schedule;
  const NoisyImages batch = noisy_images(images, which, seed, noise_options);
  LossSum out;
  const auto n = static_cast<double>(which.size());
  at::Tensor x = batch.noisy, time = batch.time, loss;
  Answer before = ask(x, time, batch.label);
  at::Tensor feature = before.feature, image;
  if (network_->frozen_image) image = predicted(schedule, x, before.noise, time);
  double overlap = 0.0, error = 0.0;
  for (std::int64_t depth = 0; depth < options_.unroll; ++depth) {
    at::Tensor fresh;
    {
      const at::NoGradGuard frozen;
      std::tie(x, fresh) = stepped(schedule, x, before.noise, time, which, seed, depth);
    }
    time = time - 1;
    const Answer wanted = ask(x, time, batch.label);
    const Answer said = say(x, feature, time, batch.label, fresh);
    const at::Tensor noise = network_->frozen_image
                                 ? said.noise * units(schedule, network_->config, time) +
                                       frozen_noise(schedule, image, x, time)
                                 : said.noise;
    const at::Tensor off = (noise - wanted.noise).square();
    // Of an image: both halves' mean.
    const auto by_image_mean = [&](const at::Tensor& of_half) {
      return of_half.view({-1, off.size(0)}).mean(0);
    };
    const at::Tensor cosine =
        by_image_mean(1.0 - at::cosine_similarity(said.feature, wanted.feature, -1, 1e-8).mean(1));
    const at::Tensor smooth =
        by_image_mean(at::smooth_l1_loss(said.feature, wanted.feature, 0, 1.0).mean({1, 2}));
    // 2 Phi(-delta / 2), delta the distance of the means in standard deviations.
    const at::Tensor delta = (off.sum({1, 2, 3}) + kTiny).sqrt() * kappas(schedule, time);
    const at::Tensor kept = at::special_erfc(delta * (0.5 * std::numbers::sqrt2 / 2.0));
    const at::Tensor each = off.mean({1, 2, 3}) + cosine * options_.feature +
                            smooth * options_.smooth - at::log(kept + kTiny) * options_.overlap;
    loss = loss.defined() ? loss + each.sum() : each.sum();
    overlap += kept.detach().sum().item<double>();
    error += off.detach().mean().item<double>() * n;
    feature = said.feature.to(at::kFloat);
    if (network_->frozen_image) image = predicted(schedule, x, noise.detach(), time);
    before = wanted;
  }
  const auto steps = static_cast<double>(options_.unroll);
  out.loss = loss;
  out.weight = n * steps;
  out.tokens = static_cast<std::int64_t>(which.size());
  // Acceptance probability at these times and this guidance.
  out.figures = {{"kept", overlap, n * steps}, {"noise", error, n * steps}};
  return out;
}

LossSum FreeObjective::loss(std::span<const std::size_t> examples, std::uint64_t seed) {
  // The last drafted step is that of time 1: the first state needs `unroll` times before it.
  return loss_of(training_, examples, seed,
                 {.drop = guidance().on() ? 0.0 : options_.drop,
                  .flip = options_.flip,
                  .first_time = options_.unroll + 1,
                  .late = options_.late});
}

LossSum FreeObjective::held_out_loss(std::span<const std::size_t> examples) {
  return loss_of(held_out_, examples, kHeldOutSeed,
                 {.drop = 0.0, .flip = false, .first_time = options_.unroll + 1});
}

double FreeObjective::flops(std::span<const std::size_t> examples) const {
  const DitConfig& c = target_->config;
  const auto steps = static_cast<double>(options_.unroll);
  return static_cast<double>(examples.size()) * static_cast<double>(guidance().halves()) *
         (2.0 * (1.0 + steps) * dit_pass_work(c) + 6.0 * steps * free_pass_work(c));
}

std::string FreeObjective::fingerprint() const {
  return fmt::format(
      "free target={} frozen_image={} feature={} smooth={} overlap={} guidance={} late={} drop={} "
      "flip={} unroll={} data={} held_out={}",
      digest_of(*target_), network_->frozen_image, options_.feature, options_.smooth,
      options_.overlap, options_.guidance, options_.late, options_.drop, options_.flip,
      options_.unroll, digest_of(training_), digest_of(held_out_));
}

void FreeObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                         const nlohmann::json& provenance) {
  save_free(folder, with_values(*network_, values), *target_, provenance);
}

}  // namespace forerun
