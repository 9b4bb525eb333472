#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace forerun {

/// A weight of a model by its published name.
struct ModelWeight {
  std::string name;
  at::Tensor* tensor;               ///< inside the model
  std::vector<std::int64_t> shape;  ///< as the config asks for it
};

/// Puts weights on a device, as leaves; nothing else of the model is moved.
inline void move_to(const std::vector<ModelWeight>& weights, const at::Device& device) {
  for (const ModelWeight& w : weights) *w.tensor = w.tensor->detach().to(device);
}

/// The model with other values, in the order of `weights(model)`; everything else is shared.
template <class Model>
Model with_values(Model model, std::span<const at::Tensor> values) {
  const std::vector<ModelWeight> places = weights(model);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i].tensor = values[i];
  return model;
}

}  // namespace forerun
