#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/methods/cspd/guidance.h"
#include "forerun/methods/cspd/masked_reader.h"
#include "forerun/models/mar/mar_head.h"
#include "forerun/models/mar/mar_network.h"

namespace forerun {

/// A MAR and how its tokens are sampled, for several images at once: the caches of keys and values
/// of the causal form, the conditions of the tokens in question, and its head as the model of their
/// chains.
class MarChains final : public ChainModel {
 public:
  /// What is shared by those that read with one network.
  struct Setting {
    std::shared_ptr<const MarNetwork> network;
    std::shared_ptr<const MarHead> head;
    TokenGuidance guidance;
    /// Of inner steps; empty: the head's own. A draft model takes the target's.
    std::vector<double> sigmas;
    std::shared_ptr<const MaskedReader> masked = nullptr;  ///< the masked form's backbone
  };
  /// @throws std::invalid_argument  an inner step without noise: such a token has no density
  explicit MarChains(Setting setting);

  /// Tokens of an image to read after those that were made, and how many conditions to hand over.
  struct Reading {
    const ChainSample* sample = nullptr;
    std::vector<const Latent*> more;  ///< after the sample's own
    std::size_t laws = 1;             ///< of the last tokens read: of the one after each
  };
  /// One pass over what its caches lack; there is at least one such token, or none was read yet.
  /// @return  of each reading the laws, in order; valid until `forget_laws`
  std::vector<std::vector<ChainLaw>> read(std::span<const Reading> readings);
  /// The condition that a law was made from. @return  [width], both halves of guidance
  std::span<const float> condition(const ChainLaw& law) const { return raw_[law.token]; }
  void forget_laws();
  /// The tokens of a sample that stay read.
  void keep(const ChainSample& sample, std::size_t tokens);
  void forget(SequenceId id) { caches_.erase(id); }

  std::vector<Latent> means(std::span<const ChainRow> rows) override;
  std::span<const double> sigmas() const override { return setting_.sigmas; }
  std::size_t dim() const override { return static_cast<std::size_t>(setting_.head->dim()); }

  const Setting& setting() const noexcept { return setting_; }
  /// The network's config; of the masked form with the order of this image's tokens.
  MarConfig config_of(const ChainSample& sample) const;
  std::uint64_t passes() const noexcept { return passes_; }        ///< of the backbone
  std::uint64_t head_calls() const noexcept { return calls_; }     ///< in sequence
  std::uint64_t head_rows() const noexcept { return head_rows_; }  ///< inner steps computed

 private:
  struct Caches {
    MarCache with_class;
    std::optional<MarCache> without;
  };
  // What a reading's conditions are: [laws, width] each; nothing without guidance.
  struct Conditions {
    std::vector<float> with, without;
  };
  Caches& caches_of(const ChainSample& sample);
  std::vector<Conditions> read_causal(std::span<const Reading> readings);
  std::vector<Conditions> read_masked(std::span<const Reading> readings) const;
  double guidance_at(std::size_t place, std::size_t tokens) const;

  Setting setting_;
  std::map<SequenceId, Caches> caches_;
  std::vector<MarCondition> conditions_;
  std::vector<std::vector<float>> raw_;
  std::uint64_t passes_ = 0, calls_ = 0, head_rows_ = 0;
};

/// The means that a model gives for every inner step of a sample's chains, by a pass of its own
/// over the sample's tokens. @return  by token and inner step
std::vector<std::vector<Latent>> means_along_tokens(MarChains& model, const ChainSample& sample);

/// The standard deviations that a draft model has of its own, as the target's are measured: its
/// squared error is the target's plus the squared distance of the two, here measured on chains of
/// plain sampling. For the published rules, whose models learned a variance each.
std::vector<double> own_sigmas(MarChains& draft, std::span<const double> target,
                               std::span<const ChainSample* const> samples);

}  // namespace forerun
