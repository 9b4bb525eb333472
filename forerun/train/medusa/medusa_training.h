#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/train/answers/answer_training.h"

namespace forerun {

/// Training data and loss of Medusa heads.
struct MedusaLossOptions : AnswerLossOptions {
  std::int64_t anchors = 256;  ///< places of an answer at which heads are trained, at random
  /// File that keeps the target's states from one epoch to the next, about 5 KB a token and 1,000
  /// hidden channels; empty: they are computed again.
  std::string state_store;

  MedusaLossOptions() { distill = 0.7; }
};

/// Medusa heads and their training.
struct MedusaTraining {
  std::int64_t heads = 3;              ///< tokens that they predict
  std::int64_t width = 384;            ///< of the trunk
  std::int64_t intermediate = 768;     ///< of its MLP
  std::vector<std::int64_t> features;  ///< target blocks whose output is read; empty: of five
                                       ///< even ones the second, fourth and fifth
  std::int64_t draft_vocab = 8192;     ///< the target's most frequent tokens; 0: all
  std::int64_t markov_rank = 64;       ///< 0: no Markov head
  /// 4: weights are rounded to 4 bits in training as in passes (quantisation-aware); 0: as those of
  /// `init`, else not in training, and to 8 bits in int8 passes.
  std::int64_t weight_bits = 0;
  /// Folder of heads to continue from, with their design, but for `weight_bits`.
  /// Empty: the product with the vocabulary begins as the target's, the rest at random.
  std::string init;
  MedusaLossOptions loss;
};

}  // namespace forerun
