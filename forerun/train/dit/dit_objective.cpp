#include "forerun/train/dit/dit_objective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "forerun/models/dit/dit_file.h"
#include "forerun/train/images/image_batch.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {}  // namespace

DitObjective::DitObjective(std::shared_ptr<Dit> model, LabelledImages training,
                           LabelledImages held_out, const DitTraining& options)
    : model_(std::move(model)),
      training_(std::move(training)),
      held_out_(std::move(held_out)),
      options_(options) {
  check_images(shape_of(model_->config), training_, held_out_);
}

std::vector<Parameter> DitObjective::parameters() {
  return parameters_of(weights(*model_), [](const ModelWeight& w) {
    return w.shape.size() == 2 && w.name.starts_with("blocks.");
  });
}

LossSum DitObjective::loss_of(const LabelledImages& images, std::span<const std::size_t> which,
                              std::uint64_t seed, double drop, bool flip) const {
  const NoisyImages batch = noisy_images(images, which, seed, {.drop = drop, .flip = flip});
  const at::Tensor predicted = run_dit(*model_, batch.noisy, batch.time, batch.label).noise;
  const at::Tensor errors = (predicted - batch.noise).square().mean({1, 2, 3});
  LossSum out;
  out.loss = errors.sum();
  out.weight = static_cast<double>(which.size());
  out.tokens = static_cast<std::int64_t>(which.size());
  // Late in sampling the noise is small and hard to predict; most of the loss is there.
  const at::Tensor late = batch.time.lt(100);
  out.figures = {
      {"below 100", (errors.detach() * late).sum().item<double>(), late.sum().item<double>()}};
  return out;
}

LossSum DitObjective::loss(std::span<const std::size_t> examples, std::uint64_t seed) {
  return loss_of(training_, examples, seed, options_.drop, options_.flip);
}

LossSum DitObjective::held_out_loss(std::span<const std::size_t> examples) {
  return loss_of(held_out_, examples, kHeldOutSeed, 0.0, false);
}

double DitObjective::flops(std::span<const std::size_t> examples) const {
  // Forward, and back for weights and inputs.
  return 6.0 * static_cast<double>(examples.size()) * dit_pass_work(model_->config);
}

std::string DitObjective::fingerprint() const {
  const DitConfig& c = model_->config;
  return fmt::format(
      "dit depth={} hidden={} heads={} patch={} input={}x{} mlp={} classes={} "
      "drop={} flip={} data={} held_out={}",
      c.depth, c.hidden, c.heads, c.patch, c.channels, c.input, c.mlp, c.classes, options_.drop,
      options_.flip, digest_of(training_), digest_of(held_out_));
}

void DitObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                        const nlohmann::json& provenance) {
  save_dit(folder, with_values(*model_, values), provenance);
}

}  // namespace forerun
