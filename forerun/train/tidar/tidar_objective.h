#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/gated_lora/gated_lora.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/tidar/tidar_training.h"

namespace forerun {

/// Gated LoRA on an unchanged decoder: every mask row learns the decoder's own law of its position,
/// by the text's row before it in the same pass, and the token that came (TiDAR, arXiv:2511.08923,
/// section 3.1, with labels that are not shifted; adapters on mask rows alone: arXiv:2507.11851).
///
/// The figures: "first", the share of blocks whose first draft is right, and "tau", tokens a block
/// that a greedy decoder would keep, the decided one included; then the share of right drafts of
/// each further slot. Drafts are those of slots 1 and up.
class TidarObjective : public AnswerObjective {
 public:
  /// @param decoder  the author of the answers, float32, or with bfloat16 matrices under autocast;
  ///                 no gradient reaches it
  /// @param lora     float32 leaves that will be trained; kept
  /// @param data     kept mapped
  TidarObjective(std::shared_ptr<const DecoderLm> decoder, std::shared_ptr<GatedLora> lora,
                 std::vector<TokenShards> data, const TidarLossOptions& options);

  std::vector<Parameter> parameters() override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

  /// First positions of a document's blocks, rising.
  std::vector<std::int64_t> starts_of(const AnswerDocument& document, std::uint64_t seed) const;

 private:
  LossSum loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) override;

  std::shared_ptr<const DecoderLm> decoder_;
  std::shared_ptr<GatedLora> lora_;
  TidarLossOptions options_;
};

}  // namespace forerun
