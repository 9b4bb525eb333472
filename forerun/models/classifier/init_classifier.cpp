#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "forerun/models/classifier/classifier.h"

namespace forerun {

Classifier random_classifier(const ClassifierConfig& config, std::uint64_t seed) {
  check_classifier_config(config);
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Classifier m;
  m.config = config;
  for (const ModelWeight& w : weights(m)) {
    at::Tensor& x = *w.tensor;
    if (w.shape.size() == 1) {
      x = w.name.ends_with("norm.weight") ? at::ones(w.shape) : at::zeros(w.shape);
      continue;
    }
    std::int64_t inputs = 1;  // inputs of each output's sum
    for (std::size_t d = 1; d < w.shape.size(); ++d) inputs *= w.shape[d];
    if (w.tensor == &m.class_weight) {
      const double bound = std::sqrt(6.0 / static_cast<double>(inputs + w.shape[0]));
      x = at::empty(w.shape).uniform_(-bound, bound, generator);
    } else {
      x = at::empty(w.shape).normal_(0.0, std::sqrt(2.0 / static_cast<double>(inputs)), generator);
    }
  }
  return m;
}

}  // namespace forerun
