#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "forerun/models/classifier/classifier_config.h"
#include "forerun/models/model_weight.h"

namespace forerun {

/// A convolution of 3 x 3, the larger of every 2 x 2 pixels, GroupNorm of 8 groups, GELU. Nothing
/// in it depends on the other images of a batch.
struct ClassifierStage {
  at::Tensor kernel;        ///< [out, in, 3, 3]
  at::Tensor scale, shift;  ///< [out], of the norm
};

/// A small network that names the class of an image: three stages, a layer of features, a layer of
/// classes. All tensors float32 (or all float64).
struct Classifier {
  ClassifierConfig config;
  std::array<ClassifierStage, ClassifierConfig::kStages> stages;
  at::Tensor feature_weight;  ///< [features, 4 width * last_side * last_side]
  at::Tensor feature_bias;    ///< [features]
  at::Tensor class_weight;    ///< [classes, features]
  at::Tensor class_bias;      ///< [classes]
};

/// Everything that is trained, by the names of its file.
std::vector<ModelWeight> weights(Classifier& model);

/// What a pass says of images.
struct ClassifierOutput {
  at::Tensor logits;    ///< [batch, classes]
  at::Tensor features;  ///< [batch, features]: what the layer of classes reads
  at::Tensor spatial;   ///< [batch, spatial_features]: the first 7 channels behind the second stage
};

/// One pass. Differentiable.
/// @param x  [batch, channels, input, input] of the weights' type, in [-1, 1]
/// @throws std::invalid_argument  another shape
ClassifierOutput run_classifier(const Classifier& model, const at::Tensor& x);

/// Multiply-adds of one pass over one image.
double classifier_pass_work(const ClassifierConfig& config);

/// He-normal convolutions and features, Xavier-uniform classes, zero biases.
/// @throws std::invalid_argument  sizes that no network can have
Classifier random_classifier(const ClassifierConfig& config, std::uint64_t seed);

}  // namespace forerun
