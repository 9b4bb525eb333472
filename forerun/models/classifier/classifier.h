#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "forerun/models/classifier/classifier_config.h"
#include "forerun/models/model_weight.h"

namespace forerun {

/// A convolution of 3 x 3, max pooling over 2 x 2 pixels, GroupNorm of 8 groups, GELU. Independent
/// of the other images of a batch.
struct ClassifierStage {
  at::Tensor kernel;        ///< [out, in, 3, 3]
  at::Tensor scale, shift;  ///< [out], of the norm
};

/// A small network that predicts the class of an image: three stages, a layer of features, a layer
/// of classes. All tensors float32 (or all float64).
struct Classifier {
  ClassifierConfig config;
  std::array<ClassifierStage, ClassifierConfig::kStages> stages;
  at::Tensor feature_weight;  ///< [features, 4 width * last_side * last_side]
  at::Tensor feature_bias;    ///< [features]
  at::Tensor class_weight;    ///< [classes, features]
  at::Tensor class_bias;      ///< [classes]
};

/// All trained tensors, by their names in the file.
std::vector<ModelWeight> weights(Classifier& model);

/// Output of a pass.
struct ClassifierOutput {
  at::Tensor logits;    ///< [batch, classes]
  at::Tensor features;  ///< [batch, features]: the input of the layer of classes
  at::Tensor spatial;   ///< [batch, spatial_features]: the first 7 channels after the second stage
};

/// One pass. Differentiable.
/// @param x  [batch, channels, input, input] of the weights' type, in [-1, 1]
/// @throws std::invalid_argument  another shape
ClassifierOutput run_classifier(const Classifier& model, const at::Tensor& x);

/// Multiply-adds of one pass over one image.
double classifier_pass_work(const ClassifierConfig& config);

/// He-normal convolutions and features, Xavier-uniform classes, zero biases.
/// @throws std::invalid_argument  invalid sizes
Classifier random_classifier(const ClassifierConfig& config, std::uint64_t seed);

}  // namespace forerun
