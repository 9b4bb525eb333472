#pragma once

#include <vector>

#include "forerun/models/model_weight.h"
#include "forerun/train/objective.h"

namespace forerun {

/// The weights of a model as training parameters.
/// @param decays  whether weight decay and Muon apply to a ModelWeight. True for matrices that
///                multiply activations; not for norms, vectors and tables
template <class Decays>
std::vector<Parameter> parameters_of(const std::vector<ModelWeight>& weights,
                                     const Decays& decays) {
  std::vector<Parameter> out;
  out.reserve(weights.size());
  for (const ModelWeight& w : weights) {
    out.push_back({.name = w.name, .value = w.tensor->requires_grad_(), .decay = decays(w)});
  }
  return out;
}

}  // namespace forerun
