#pragma once

#include <cstdint>
#include <string>

#include "forerun/train/answers/answer_training.h"

namespace forerun {

/// Training data and loss of gated LoRA.
struct TidarLossOptions : AnswerLossOptions {
  /// Sets of blocks of an answer. The blocks of a set follow each other from a random position on;
  /// all sets share one pass over the text.
  std::int64_t offsets = 2;
};

/// Adapters by which a decoder drafts on rows of masks, and their training.
struct TidarTraining {
  std::int64_t rank = 32;         ///< of the adapters of every linear layer
  std::int64_t block = 4;         ///< B: tokens of a block, the decided first one included
  bool first_slot = false;        ///< a mask for the block's first token too
  std::int64_t markov_rank = 64;  ///< 0: no Markov head
  /// Folder of adapters to continue from, with their design. Empty: from ones that add nothing.
  std::string init;
  TidarLossOptions loss;
};

}  // namespace forerun
