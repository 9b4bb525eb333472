#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/models/diffusion_lm/diffusion_lm.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/answers/target_states.h"
#include "forerun/train/dlm/dlm_training.h"

namespace forerun {

/// Masked denoising behind a causal text: blocks at random positions of an answer, all masked, the
/// cross-entropy with the answer's tokens and with the target's law at the same places.
///
/// Draft k of a block, counted from 0, weighs exp(-k / gamma), and counts until the first token
/// that the outputs lack. Draft 0 is predicted by a row of the text, which every position has: the
/// draft 0 of the positions without a block is learned too, and all of an answer weigh together
/// what those of its blocks would. In a network whose rows all see each other every block has rows
/// of its own, so that there each draft 0 is a block's. The figures are of the blocks: the share of
/// right first drafts, `tau`, the leading right drafts and 1, and the share of right drafts at
/// every second place. Source: block diffusion, Arriola et al. 2025, arXiv:2503.09573; shifted
/// predictions as in Dream.
class DlmObjective : public AnswerObjective {
 public:
  /// @param target  the author of the answers; its passes make the laws
  /// @param model   float32 leaves that will be trained, but for embedding and head; kept
  /// @param data    kept mapped
  /// @param target_hash  of the target's weights (Model::hash)
  /// @throws std::invalid_argument  no document has an answer to learn from, or a token outside the
  /// target's vocabulary
  DlmObjective(const std::shared_ptr<const DecoderLm>& target, std::shared_ptr<DiffusionLm> model,
               std::vector<TokenShards> data, const TargetHead& head, const DlmLossOptions& options,
               const std::string& target_hash);

  std::vector<Parameter> parameters() override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

 protected:
  LossSum loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) override;

 private:
  /// The supervised rows of a batch.
  struct Drafts {
    std::vector<std::int64_t> row;      // of the pass: text, then the masks of every block
    std::vector<std::int64_t> draft;    // number in its block
    std::vector<std::int64_t> label;    // output
    std::vector<std::int64_t> teacher;  // row of the target's states that predicts it
    std::vector<float> weight;
    std::size_t of_blocks = 0;  // the first so many are those of the blocks, in their order
  };

  Drafts supervised(std::span<const AnswerDocument> documents, const MaskedBatch& batch) const;
  std::int64_t output_at(const AnswerDocument& document, std::int64_t position) const;

  std::shared_ptr<DiffusionLm> model_;
  DlmLossOptions options_;
  std::string target_;  // hash and precision of the target: part of the fingerprint
  TargetStates states_;
  std::vector<std::int64_t> outputs_;  // of the target's vocabulary: output, or -1
};

}  // namespace forerun
