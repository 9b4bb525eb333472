#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/gated_lora/gated_lora.h"
#include "forerun/models/gated_lora/mask_training.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/tidar/mask_slots.h"
#include "forerun/train/tidar/tidar_training.h"

namespace forerun {

/// What the folder of a trained model holds besides its weights.
struct ModelFiles {
  nlohmann::json ids;  ///< fields of config.json that name tokens
  std::vector<std::pair<std::string, std::string>> files;  ///< name and bytes: the tokenizer's
};

/// A whole decoder: its text's rows learn the next token, and its rows of masks their own position,
/// in one pass whose gradients meet in the text's keys and values (TiDAR, arXiv:2511.08923,
/// section 3.1, equation 3). A document of n learned tokens weighs alpha n by its text and n by its
/// masks, whatever their number.
///
/// The figures: "text", the cross-entropy of the text's rows in nats a token, comparable with that
/// of a twin without masks; then those of TidarObjective, but of batches with random masks.
class TidarModelObjective : public AnswerObjective {
 public:
  /// @param decoder  float32 leaves that will be trained; kept
  /// @param masks    rank 0; float32 leaves; kept. Not used where `options.masks` is false
  /// @param data     kept mapped
  TidarModelObjective(std::shared_ptr<DecoderLm> decoder, std::shared_ptr<GatedLora> masks,
                      std::vector<TokenShards> data, const TidarModelLossOptions& options,
                      ModelFiles files);

  std::vector<Parameter> parameters() override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

 private:
  /// What a batch of documents learns.
  struct Plan {
    MaskBatch batch;
    std::int64_t rows = 0, blocks = 0;
    std::vector<std::int64_t> text_row;    // rows of the text that learn
    std::vector<std::int64_t> text_label;  // their next token
    MaskSlots slots;                       // their teachers are numbers in `text_row`
  };
  /// Held-out documents never are. The documents of a batch are all held out, or none is.
  bool masked_at_random(const AnswerDocument& document) const noexcept;
  Plan plan_of(std::span<const AnswerDocument> documents, std::uint64_t seed) const;
  LossSum loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) override;
  std::vector<ModelWeight> all_weights() const;

  std::shared_ptr<DecoderLm> decoder_;
  std::shared_ptr<GatedLora> masks_;
  TidarModelLossOptions options_;
  ModelFiles files_;
  std::string start_;  // digest of the weights that it began with
};

}  // namespace forerun
