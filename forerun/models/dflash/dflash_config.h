#pragma once

#include <cstdint>
#include <vector>

#include "forerun/models/decoder_config.h"
#include "forerun/models/layer_attention.h"

namespace forerun {

/// Configuration of a DFlash network.
/// Source: Chen, Liang and Liu 2026, arXiv:2602.06036; Markov and confidence head: DSpark,
/// arXiv:2607.05147; convolutions (BlockConfig) and selector: DFlash 2, z-lab/dflash.
struct DFlashConfig : BlockConfig {  // hidden is the target's
  std::int64_t layers = 0;
  std::int64_t vocab = 0;        ///< rows of the target's embedding and head
  std::int64_t draft_vocab = 0;  ///< tokens it can draft; == vocab if not reduced
  std::int64_t target_layers = 0;
  /// Zero-based ids of the target's blocks whose output (the residual stream) is a feature, in the
  /// order of fc's column blocks.
  std::vector<std::int64_t> feature_layers;
  std::int64_t block = 0;  ///< slots: the anchor, then masks
  /// Slot k predicts position start + k + 1 (as many drafts as slots); else its own position start
  /// + k, and slot 0, the anchor, has no prediction. The published name: sample_from_anchor.
  bool predicts_next = false;
  /// Row of the target's embedding used in masked slots; -1 if there is a mask vector.
  std::int64_t mask_token = -1;
  /// A projection of the last context row is added to the input of every slot.
  bool slot_state = false;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::vector<LayerAttention> attention;  ///< [layers]
  double embedding_scale = 1.0, output_multiplier = 1.0;
  double final_softcap = 0.0;        ///< logits become c * tanh(logit / c); 0 = none
  std::int64_t markov_rank = 0;      ///< 0 = no Markov head
  bool markov_gated = false;         ///< it is gated by a slot's output
  std::int64_t selector_rank = 0;    ///< 0 = no selector; never beside a Markov head
  std::int64_t selector_top_k = 16;  ///< candidates of a slot
  /// Matrices that a pass reads whole are trained to be rounded to so many bits: 4, in groups of 32
  /// (four_bit_weights.h), or 0: they are not.
  std::int64_t weight_bits = 0;
  bool confidence = false;             ///< has a confidence head
  bool confidence_sees_markov = true;  ///< which reads the Markov head's row of the previous token

  DFlashConfig() { head_norms = fused = true; }
  std::int64_t features() const noexcept {
    return static_cast<std::int64_t>(feature_layers.size());
  }
  std::int64_t first_drafting_slot() const noexcept { return predicts_next ? 0 : 1; }
  /// Numbers that Markov head or selector read of a slot; 0: none.
  std::int64_t slot_numbers() const noexcept {
    return selector_rank > 0 ? selector_rank : markov_gated ? markov_rank : 0;
  }
  std::int64_t drafts() const noexcept { return block - first_drafting_slot(); }
  std::int64_t confidence_inputs() const noexcept {
    return hidden + (confidence_sees_markov ? markov_rank : 0);
  }
};

}  // namespace forerun
