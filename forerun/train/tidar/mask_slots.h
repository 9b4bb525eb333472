#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/models/gated_lora/gated_lora.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/options.h"

namespace forerun {

/// The supervised mask rows of a batch, a row each.
struct MaskSlots {
  std::vector<std::int64_t> row;       ///< of the batch's masks
  std::vector<std::int64_t> draft;     ///< which draft of its block; -1: slot 0
  std::vector<std::int64_t> label;     ///< token at the slot
  std::vector<std::int64_t> previous;  ///< token before it
  std::vector<std::int64_t> teacher;   ///< row of the text that predicts it
  std::vector<float> weight;

  /// Adds the slots of the block at `start` of a document.
  /// @param block     its number in the batch
  /// @param text_row  of the document's first token, among the teachers
  /// @param gamma     draft k counts exp(-k / gamma)
  void add(const AnswerDocument& document, const GatedLoraConfig& config, std::int64_t block,
           std::int64_t start, std::int64_t text_row, double gamma);
  /// Adds one of another's.
  void append(const MaskSlots& from, std::size_t slot);
};

/// Masks at random (SDAR, arXiv:2510.06303; Nemotron-Labs-Diffusion, arXiv:2607.05722): each of a
/// document's slots stays a mask with probability p, drawn for the document from (0.001, 1). The
/// others show their token and are not learned.
/// @param shown  of each row of the batch's masks, -1 on entry; that of a slot is written
/// @return  the slots that stay
MaskSlots mask_at_random(const MaskSlots& slots, const AnswerDocument& document, std::uint64_t seed,
                         std::span<Token> shown);

/// First positions of a document's blocks, rising: `offsets` sets at most, the blocks of a set
/// follow each other from a random position of the answer's first `config.block` on.
std::vector<std::int64_t> block_starts(const AnswerDocument& document,
                                       const GatedLoraConfig& config, std::int64_t offsets,
                                       std::uint64_t seed);

/// "first" and "tau" of the blocks (kept_drafts), then the share of right drafts of each further
/// slot.
/// @param best  [slots] int64: the likeliest token of each
std::vector<Figure> slot_figures(const MaskSlots& slots, const GatedLoraConfig& config,
                                 const at::Tensor& best, std::int64_t blocks);

}  // namespace forerun
