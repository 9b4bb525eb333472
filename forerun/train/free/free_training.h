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
  /// The network predicts how the noise differs from that of a predicted x0 that stays; ours.
  bool frozen_image = true;
  /// Guidance that it will draft with: it learns the guided noise, both halves of a pass at once;
  /// ours. 1: noise without guidance, some classes dropped, as the paper.
  double guidance = 1.5;
  /// Share of the images among the last 100 times, where most drafts are rejected; the others are
  /// uniform, as all are in the paper (0).
  double late = 0.5;
  double drop = 0.1;  ///< share of the images whose class is not told, without guidance
  bool flip = true;   ///< every other image flipped
  /// Steps that it runs on its own feature, after the target's; the paper has 1. More show it in
  /// training what it sees when it drafts on.
  std::int64_t unroll = 1;
  std::string init;  ///< folder of a drafter to go on from; empty: from the target
};

}  // namespace forerun
