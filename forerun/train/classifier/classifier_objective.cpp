#include "forerun/train/classifier/classifier_objective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "forerun/models/classifier/classifier_file.h"
#include "forerun/train/classifier/augmented_images.h"
#include "forerun/train/parameters_of.h"

namespace forerun {

ImageShape shape_of(const ClassifierConfig& c) {
  return {c.input, c.channels, c.classes, "classifier"};
}

ClassifierObjective::ClassifierObjective(std::shared_ptr<Classifier> model, LabelledImages training,
                                         LabelledImages held_out, const ClassifierTraining& options)
    : model_(std::move(model)),
      training_(std::move(training)),
      held_out_(std::move(held_out)),
      options_(options) {
  check_images(shape_of(model_->config), training_, held_out_);
}

std::vector<Parameter> ClassifierObjective::parameters() {
  return parameters_of(weights(*model_), [](const ModelWeight& w) { return w.shape.size() > 1; });
}

LossSum ClassifierObjective::loss_of(const at::Tensor& x, const at::Tensor& labels,
                                     double smoothing) const {
  const at::Tensor logits = run_classifier(*model_, x).logits.to(at::kFloat);
  const auto n = static_cast<double>(labels.size(0));
  LossSum out;
  out.loss = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, -100, smoothing);
  out.weight = n;
  out.tokens = labels.size(0);
  out.figures = {{"accuracy", logits.detach().argmax(1).eq(labels).sum().item<double>(), n}};
  return out;
}

LossSum ClassifierObjective::loss(std::span<const std::size_t> examples, std::uint64_t seed) {
  return loss_of(
      augmented_images(training_, examples, seed, {.flip = options_.flip, .shift = options_.shift}),
      labels_of(training_, examples), options_.smoothing);
}

LossSum ClassifierObjective::held_out_loss(std::span<const std::size_t> examples) {
  return loss_of(augmented_images(held_out_, examples), labels_of(held_out_, examples), 0.0);
}

double ClassifierObjective::flops(std::span<const std::size_t> examples) const {
  // Forward, and back for weights and inputs.
  return 6.0 * static_cast<double>(examples.size()) * classifier_pass_work(model_->config);
}

std::string ClassifierObjective::fingerprint() const {
  const ClassifierConfig& c = model_->config;
  return fmt::format(
      "classifier width={} features={} input={}x{} classes={} flip={} shift={} smoothing={} "
      "data={} held_out={}",
      c.width, c.features, c.channels, c.input, c.classes, options_.flip, options_.shift,
      options_.smoothing, digest_of(training_), digest_of(held_out_));
}

void ClassifierObjective::save(const std::filesystem::path& folder,
                               std::span<const at::Tensor> values,
                               const nlohmann::json& provenance) {
  save_classifier(folder, with_values(*model_, values), provenance);
}

}  // namespace forerun
