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

/// Loss of a decoder of which all weights learn.
struct TidarModelLossOptions : TidarLossOptions {
  /// Weight of the text's own rows: a document's count `alpha` each, its masks together as much as
  /// those rows would with 1.
  double alpha = 1.0;
  bool masks = true;  ///< false: the text's rows alone, the autoregressive twin
  /// Slots show their token, and are not learned, at random (`mask_at_random`). Held-out documents
  /// have all masks, as drafting has.
  bool random_masks = false;
};

/// A decoder that drafts on rows of masks with its own weights, and its training.
struct TidarModelTraining {
  std::int64_t block = 4;         ///< B: tokens of a block, the decided first one included
  bool first_slot = false;        ///< a mask for the block's first token too
  std::int64_t markov_rank = 64;  ///< 0: no Markov head
  bool random = false;  ///< from random weights: of the target's folder, config.json alone
  TidarModelLossOptions loss;
};

}  // namespace forerun
