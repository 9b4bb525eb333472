#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/models/medusa/medusa.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/answers/stored_states.h"
#include "forerun/train/medusa/medusa_training.h"

namespace forerun {

/// The loss of Medusa heads on a target's answers: of head k at a place, the cross-entropy with the
/// token k + 1 places after the newest one, and with the target's law there (self-distillation; Cai
/// et al. 2024, arXiv:2401.10774, section 2.3.2). The target does not change. The Markov head is
/// given the true token before.
///
/// A head counts until the first token that the draft vocabulary lacks: no draft after it can be
/// kept. The figures give the share of right first drafts, and `tau`: leading drafts of the heads'
/// first choices that are kept, plus 1.
class MedusaObjective : public AnswerObjective {
 public:
  /// Arguments and errors as those of DFlashObjective.
  MedusaObjective(const std::shared_ptr<const DecoderLm>& target, std::shared_ptr<Medusa> model,
                  std::vector<TokenShards> data, const TargetHead& head,
                  const MedusaLossOptions& options, const std::string& target_hash);

  std::vector<Parameter> parameters() override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

 private:
  LossSum loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) override;

  std::shared_ptr<Medusa> model_;
  MedusaLossOptions options_;
  std::string target_;  // hash and precision of the target: part of the fingerprint
  StoredStates states_;
  std::vector<std::int64_t> drafted_;  // of the target's vocabulary: id in the draft's, or -1
};

}  // namespace forerun
