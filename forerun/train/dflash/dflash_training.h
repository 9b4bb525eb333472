#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/train/answers/answer_training.h"

namespace forerun {

/// Training data and loss of a DFlash network.
struct DFlashLossOptions : AnswerLossOptions {
  std::int64_t anchors = 64;  ///< blocks of an answer, at random positions
  double confidence = 1.0;    ///< weight of the confidence head's loss
  /// Against the target's law: "cross-entropy", or "l1", the distance of the laws, which is twice
  /// the chance that a sampled draft is rejected (DSpark).
  std::string law_loss = "cross-entropy";
  /// File that keeps the target's states from one epoch to the next, about 8 KB a token and 1,000
  /// hidden channels; empty: they are computed again.
  std::string state_store;
};

/// The DFlash network and its training.
struct DFlashTraining {
  std::int64_t layers = 2;
  std::int64_t block = 8;               ///< slots: the anchor, then masks
  bool predicts_next = true;            ///< slot k predicts the token after it, also the anchor
  std::vector<std::int64_t> features;   ///< target blocks whose output is read; empty: 5, evenly
  std::int64_t draft_vocab = 8192;      ///< the target's most frequent tokens; 0: all
  std::int64_t markov_rank = 64;        ///< 0: no Markov head
  std::string markov_head = "vanilla";  ///< or "gated", by the slot's output (DSpark)
  std::int64_t selector_rank = 0;  ///< of DFlash 2's selector, in place of the Markov head; 0: none
  bool conv = false;  ///< convolutions over neighbouring slots around each sublayer (DFlash 2)
  /// 4: weights are rounded to 4 bits in training as in passes (quantisation-aware); 0: as those of
  /// `init`, else not in training, and to 8 bits in passes of int8.
  std::int64_t weight_bits = 0;
  bool slot_state = true;  ///< the target's newest state, projected, is added to the slots
  bool confidence = true;  ///< with a confidence head
  /// Folder of a drafter to continue from, with its design except `block`, and `conv` and
  /// `weight_bits`, which it gets if it lacks them: for more data, other options, or a growing
  /// block. Empty: from the target, or at random.
  std::string init;
  bool from_target = true;  ///< initialised from the target's last blocks, not with random weights
  DFlashLossOptions loss;
};

}  // namespace forerun
