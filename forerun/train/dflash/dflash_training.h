#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forerun {

/// What a DFlash network learns from.
struct DFlashLossOptions {
  std::int64_t anchors = 64;   ///< blocks of an answer, at random positions
  std::int64_t length = 1024;  ///< tokens of a document at most; what is behind is left out
  double gamma = 4.0;          ///< slot k counts exp(-k / gamma), the first slot 1
  double distill = 0.5;        ///< share of the loss against the target's law instead of its token
  double held_out = 0.01;      ///< share of the documents that are never trained on
  double confidence = 1.0;     ///< weight of the confidence head's loss
  /// File that keeps the target's states from one epoch to the next, about 4 KB a token and 1,000
  /// hidden channels; empty: they are computed again.
  std::string state_store;
};

/// The DFlash network that is trained, and how.
struct DFlashTraining {
  std::int64_t layers = 2;
  std::int64_t block = 8;              ///< slots: the anchor, then masks
  bool predicts_next = true;           ///< slot k predicts the token behind it, the anchor's too
  std::vector<std::int64_t> features;  ///< target blocks whose output is read; empty: 5, evenly
  std::int64_t draft_vocab = 8192;     ///< the tokens the target says most; 0: all
  std::int64_t markov_rank = 64;       ///< 0: no Markov head
  bool slot_state = true;              ///< slots begin with the target's newest state, projected
  bool confidence = true;              ///< with a confidence head
  bool from_target = true;  ///< begin as the target's last blocks, not with random weights
  DFlashLossOptions loss;
};

}  // namespace forerun
