#pragma once

#include <vector>

#include "forerun/models/model_weight.h"
#include "forerun/train/objective.h"

namespace forerun {

/// The weights of a model as what training changes.
/// @param decays  of a ModelWeight: weight decay, and Muon, are for it. True for the matrices that
///                a direction is multiplied with; not for norms, vectors and tables
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
