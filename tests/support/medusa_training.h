#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "forerun/train/medusa/medusa_objective.h"
#include "tests/support/dflash_training.h"
#include "tests/support/random_medusa.h"

/// Random Medusa heads for the tiny targets, and what their objective is made of.
namespace forerun::testing {

inline MedusaLossOptions every_place() {
  MedusaLossOptions out;
  out.anchors = 1000;
  out.held_out = 0.0;
  return out;
}

/// Owns the parts of an objective while a test changes some of them.
struct MedusaParts {
  std::shared_ptr<const DecoderLm> target = tiny_target();
  std::shared_ptr<Medusa> model;
  std::vector<TokenShards> data;
  MedusaLossOptions options = every_place();
  std::string target_hash = "a";

  MedusaObjective make() const {
    return MedusaObjective(target, model, data, head_of(*target, model->draft_to_target), options,
                           target_hash);
  }
};

/// Three heads with a Markov head, of sizes that 4 bits can have.
/// @param drafted  ids of the target's vocabulary; undefined: all
inline std::shared_ptr<Medusa> heads_for(const DecoderLm& target, const at::Tensor& drafted = {}) {
  MedusaConfig c = small_medusa();
  c.hidden = target.config.hidden;
  c.vocab = target.config.vocab;
  c.target_layers = target.config.layers;
  c.feature_layers = {0, 1};
  c.intermediate = 64;
  c.markov_rank = 3;
  c.draft_vocab = drafted.defined() ? drafted.numel() : c.vocab;
  auto model = std::make_shared<Medusa>(noisy_medusa(c, at::kFloat, 3));
  model->draft_to_target = drafted;
  model->embedding = target.embedding.to(at::kFloat);
  return model;
}

/// The same with weights of its own.
inline std::shared_ptr<Medusa> copy_of(const Medusa& model) {
  auto out = std::make_shared<Medusa>(model);
  for (const ModelWeight& w : weights(*out)) *w.tensor = w.tensor->detach().clone();
  return out;
}

}  // namespace forerun::testing
