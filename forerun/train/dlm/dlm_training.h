#pragma once

#include <cstdint>
#include <string>

#include "forerun/train/answers/answer_training.h"

namespace forerun {

/// Training data and loss of a diffusion language model that drafts.
struct DlmLossOptions : AnswerLossOptions {
  std::int64_t anchors = 32;  ///< blocks of an answer, at random positions
};

/// A diffusion language model from a target's first blocks, and its training.
struct DlmTraining {
  std::int64_t layers = 5;  ///< the target's first blocks that it begins as
  std::int64_t block = 8;   ///< drafts of a pass: of the newest token, then of masks
  /// Every row sees every other, as in Dream: drafting reads the text again in every pass, and
  /// every block of an answer is trained in a pass of its own. Else the text is causal and kept.
  bool bidirectional = false;
  std::int64_t draft_vocab = 8192;  ///< the target's most frequent tokens; 0: all
  /// 4: weights are rounded to 4 bits in training as in passes (quantisation-aware); 0: as those of
  /// `init`, else not in training, and to 8 bits in passes of int8.
  std::int64_t weight_bits = 0;
  /// Folder of one to continue from, with its design except `block`, and `weight_bits`, which it
  /// gets if it lacks them; empty: from the target.
  std::string init;
  DlmLossOptions loss;
};

}  // namespace forerun
