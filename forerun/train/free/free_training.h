#pragma once

#include <cstdint>
#include <string>

namespace forerun {

/// How a FREE drafter is trained (arXiv:2511.20390, section 3.3). Plain values: part of the public
/// API.
struct FreeTraining {
  double feature = 0.5;   ///< weight of the cosine distance of features
  double smooth = 0.005;  ///< weight of their Smooth-L1 distance
  /// Weight of -log of the probability that the draft is kept: what counts, by the schedule's
  /// measure; ours, beyond the paper. 0: not at all.
  double overlap = 0.1;
  /// The network predicts how the noise differs from that of a foreseen image that stays; ours.
  bool frozen_image = true;
  double drop = 0.1;  ///< share of the images whose class is not told
  bool flip = true;   ///< every other image mirrored
  /// Steps that it runs on its own feature, after the target's; the paper has 1. More show it in
  /// training what it sees when it drafts on.
  std::int64_t unroll = 1;
  std::string init;  ///< folder of a drafter to go on from; empty: from the target
};

}  // namespace forerun
