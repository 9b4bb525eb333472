#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/models/dflash/dflash.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/answers/stored_states.h"
#include "forerun/train/dflash/dflash_training.h"

namespace forerun {

/// Block diffusion with a target's hidden states: the loss of Chen, Liang and Liu 2026
/// (arXiv:2602.06036, section 3.3), with DSpark's heads (arXiv:2607.05147) or DFlash 2's selector
/// where the network has them. The selector's loss (selector_loss.h) is added to that of the
/// logits.
///
/// A slot counts until the first token of its block that the draft vocabulary lacks: no draft
/// behind it can be kept. The confidence head learns the probability that a slot's draft is kept:
/// the sum over draft tokens of min(P, Q), where P is the target's law over its whole vocabulary at
/// temperature 1 (what lies outside the draft vocabulary is lost) and Q the slot's own. The figures
/// also give the share of right first drafts, and `tau`: leading drafts of a greedy block that are
/// kept, plus 1.
class DFlashObjective : public AnswerObjective {
 public:
  /// @param target  the author of the answers; its passes make the features, as TargetStates
  /// @param model   float32 leaves that will be trained, but for embedding and head, all of them on
  ///                the target's device; kept
  /// @param data    kept mapped
  /// @param target_hash  of the target's weights (Model::hash): identifies the target in the state
  /// store and on resumption
  /// @throws UsageError-like std::invalid_argument  no document has an answer to learn from, a
  /// token outside the target's vocabulary
  DFlashObjective(const std::shared_ptr<const DecoderLm>& target, std::shared_ptr<DFlash> model,
                  std::vector<TokenShards> data, const TargetHead& head,
                  const DFlashLossOptions& options, const std::string& target_hash);

  std::vector<Parameter> parameters() override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

 private:
  bool confident() const { return model_->confidence_weight.defined(); }
  bool l1() const { return options_.law_loss == "l1"; }

  at::Tensor confidence_loss(const at::Tensor& hidden, const at::Tensor& previous,
                             const MixedCrossEntropy& mixed,
                             const std::vector<float>& weight) const;
  LossSum loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) override;

  std::shared_ptr<DFlash> model_;
  DFlashLossOptions options_;
  std::string target_;  // name and precision of the target: part of the fingerprint
  StoredStates states_;
  std::vector<std::int64_t> drafted_;  // of the target's vocabulary: id in the draft's, or -1
};

}  // namespace forerun
