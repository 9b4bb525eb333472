#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Blocks of masks after many positions of many documents, for one training pass.
struct MaskBatch {
  std::vector<std::span<const Token>> documents;
  /// Of each document, rising: first positions of blocks, at least 1. A block sees the rows before
  /// its first position; several may overlap.
  std::vector<std::vector<std::int64_t>> starts;
  /// Of each row of the blocks, in order: the token that it shows in place of a mask, or -1. Empty:
  /// all are masks.
  std::vector<Token> shown;
};

/// What learns in a pass.
enum class MaskTraining : std::uint8_t {
  kAdapters,  ///< the adapters alone: the text's rows run once, without autograd
  kAll,       ///< the decoder too: its weights, by the text's rows and by those of masks
};

struct MaskStates {
  at::Tensor text;   ///< [rows, hidden], documents concatenated
  at::Tensor masks;  ///< [blocks, slots, hidden]; slot s is at `first_slot + s` after the start
};

/// The doubled sequence of TiDAR (arXiv:2511.08923, section 3.1): the documents' own rows, and rows
/// of masks that see them. The text's rows meet no adapter, and run once for all blocks. Outputs of
/// the last norm, differentiable in `weights(lora)` (float32 or float64), with kAll in
/// `weights(decoder)` too; under autocast products run in its dtype, which the decoder's matrices
/// may have where they do not learn.
/// @throws std::invalid_argument  a packed (int8) decoder, one of other sizes or with a soft cap on
/// attention scores, an empty document or one longer than the context, a block that begins outside
/// its document, shown tokens of another number than rows or outside the vocabulary
MaskStates mask_states(const DecoderLm& decoder, const GatedLora& lora, const MaskBatch& batch,
                       MaskTraining training = MaskTraining::kAdapters);

}  // namespace forerun
