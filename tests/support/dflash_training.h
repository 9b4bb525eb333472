#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/models/dflash/init_dflash.h"
#include "forerun/train/dflash/dflash_objective.h"
#include "tests/support/tiny_models.h"

/// A tiny target and training documents for its drafters.
namespace forerun::testing {

inline std::shared_ptr<const DecoderLm> tiny_target(const std::string& name = "llama_plain") {
  const std::string folder = kTiny + name;
  return std::make_shared<const DecoderLm>(
      load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32));
}

/// @param drafted  ids of the target's vocabulary; undefined: all
inline TargetHead head_of(const DecoderLm& target, const at::Tensor& drafted = {}) {
  return {.norm = target.final_norm.weight,
          .norm_eps = target.final_norm.eps,
          .rows = drafted.defined() ? target.head().index_select(0, drafted) : target.head(),
          .softcap = target.config.logit_softcap,
          .whole = drafted.defined() ? target.head() : at::Tensor(),
          .drafted = drafted};
}

/// Creates `folder` and loads the documents from it.
inline TokenShards shards_in(const std::filesystem::path& folder,
                             std::span<const TokenDocument> documents) {
  std::filesystem::create_directories(folder);
  write_token_shard(folder / "tokens.safetensors", documents);
  return TokenShards::load(folder);
}

/// Tokens that look random, the same for the same salt.
inline std::vector<Token> some_tokens(std::size_t n, std::uint32_t salt, Token vocab = 176) {
  std::vector<Token> out;
  std::uint32_t state = salt * 2654435761U + 12345U;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    out.push_back(static_cast<Token>((state >> 8) % static_cast<std::uint32_t>(vocab)));
  }
  return out;
}

inline DFlashLossOptions every_block() {
  DFlashLossOptions out;
  out.anchors = 1000;
  out.held_out = 0.0;
  return out;
}

/// Owns the parts of an objective while a test changes some of them.
struct ObjectiveParts {
  std::shared_ptr<const DecoderLm> target = tiny_target();
  std::shared_ptr<DFlash> model;
  std::vector<TokenShards> data;
  DFlashLossOptions options = every_block();
  std::string target_hash = "a";

  DFlashObjective make() const {
    return DFlashObjective(target, model, data, head_of(*target, model->draft_to_target), options,
                           target_hash);
  }
};

/// A one-layer network for the tiny target with every head and random predictions.
inline std::shared_ptr<DFlash> small_network(const DecoderLm& target,
                                             const at::Tensor& drafted = {}) {
  DFlashConfig c = dflash_config_for(target.config, 1, 1, 4);
  c.feature_layers = {0, 1};
  c.predicts_next = true;
  c.markov_rank = 3;
  c.confidence = true;
  if (drafted.defined()) c.draft_vocab = drafted.numel();
  auto model = std::make_shared<DFlash>(random_dflash(c, DFlashTarget(target), 3, drafted));
  for (const ModelWeight& w : weights(*model)) {
    if (w.tensor->dim() == 2) w.tensor->mul_(20.0);
  }
  model->markov_w2.copy_(model->markov_w1.narrow(0, 0, c.draft_vocab) * -1.0);
  return model;
}

}  // namespace forerun::testing
