#include "forerun/models/classifier/classifier.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace forerun {
namespace {

constexpr std::int64_t kGroups = 8;
constexpr double kClassifierNormEps = 1e-5;
constexpr std::int64_t kMiddle = 1;  // the stage whose map gives the spatial features

at::Tensor run_stage(const ClassifierStage& stage, const at::Tensor& x) {
  // The norm after the pooling: a quarter of the work.
  const at::Tensor pooled = at::max_pool2d(at::conv2d(x, stage.kernel, {}, 1, 1), 2);
  return at::gelu(at::group_norm(pooled, kGroups, stage.scale, stage.shift, kClassifierNormEps));
}

// Averages a map to `side` x `side`; a map of that size is unchanged.
at::Tensor averaged(const at::Tensor& x, std::int64_t side) {
  return x.size(2) == side ? x : at::adaptive_avg_pool2d(x, {side, side});
}

}  // namespace

ClassifierOutput run_classifier(const Classifier& m, const at::Tensor& x) {
  const ClassifierConfig& c = m.config;
  if (x.dim() != 4 || x.size(1) != c.channels || x.size(2) != c.input || x.size(3) != c.input) {
    throw std::invalid_argument(
        fmt::format("classifier: images of shape [{}], expected [n, {}, {}, {}]",
                    fmt::join(x.sizes(), ", "), c.channels, c.input, c.input));
  }
  ClassifierOutput out;
  at::Tensor h = x;
  for (std::size_t i = 0; i < m.stages.size(); ++i) {
    h = run_stage(m.stages[i], h);
    if (i == kMiddle) {
      const at::Tensor some = h.narrow(1, 0, ClassifierConfig::kSpatialChannels);
      out.spatial = averaged(some, c.middle_side()).flatten(1);
    }
  }
  const at::Tensor flat = averaged(h, c.last_side()).flatten(1);
  out.features = at::gelu(at::linear(flat, m.feature_weight, m.feature_bias));
  out.logits = at::linear(out.features, m.class_weight, m.class_bias);
  return out;
}

std::vector<ModelWeight> weights(Classifier& m) {
  const ClassifierConfig& c = m.config;
  std::vector<ModelWeight> out;
  std::int64_t in = c.channels;
  for (std::int64_t i = 0; i < ClassifierConfig::kStages; ++i) {
    ClassifierStage& stage = m.stages[static_cast<std::size_t>(i)];
    const std::int64_t channels = c.stage_channels(i);
    out.push_back({fmt::format("stages.{}.conv.weight", i), &stage.kernel, {channels, in, 3, 3}});
    out.push_back({fmt::format("stages.{}.norm.weight", i), &stage.scale, {channels}});
    out.push_back({fmt::format("stages.{}.norm.bias", i), &stage.shift, {channels}});
    in = channels;
  }
  const std::int64_t flat = in * c.last_side() * c.last_side();
  out.push_back({"features.weight", &m.feature_weight, {c.features, flat}});
  out.push_back({"features.bias", &m.feature_bias, {c.features}});
  out.push_back({"classes.weight", &m.class_weight, {c.classes, c.features}});
  out.push_back({"classes.bias", &m.class_bias, {c.classes}});
  return out;
}

double classifier_pass_work(const ClassifierConfig& c) {
  double out = 0.0;
  std::int64_t in = c.channels, side = c.input;
  for (std::int64_t i = 0; i < ClassifierConfig::kStages; ++i, side /= 2) {
    out += 9.0 * static_cast<double>(in * c.stage_channels(i) * side * side);
    in = c.stage_channels(i);
  }
  const std::int64_t flat = in * c.last_side() * c.last_side();
  return out + static_cast<double>(flat * c.features + c.features * c.classes);
}

}  // namespace forerun
