#pragma once

#include <cstdint>
#include <string>

namespace forerun {

/// Training of a FREE drafter (arXiv:2511.20390, section 3.3). Plain values: part of the public
/// API.
struct FreeTraining {
  double feature = 0.5;   ///< weight of the cosine distance of features
  double smooth = 0.005;  ///< weight of their Smooth-L1 distance
  /// Weight of -log of the acceptance probability, computed from the schedule; ours, beyond the
  /// paper. 0: none.
  double overlap = 0.1;
  /// The network predicts how the noise differs from the noise under a constant predicted x0; ours.
  bool frozen_image = true;
  /// Guidance of the drafts: it learns the guided noise, both halves of a pass at once; ours. 1:
  /// noise without guidance, some classes dropped, as in the paper.
  double guidance = 1.5;
  /// Share of the images among the last 100 times, where most drafts are rejected; the others are
  /// uniform, like all in the paper (0).
  double late = 0.5;
  double drop = 0.1;  ///< share of the images without their class, without guidance
  bool flip = true;   ///< half of the images flipped
  /// Steps on its own feature, after the target's; the paper has 1. More steps match training to
  /// drafting.
  std::int64_t unroll = 1;
  std::string init;  ///< folder of a drafter to continue from; empty: from the target
};

}  // namespace forerun
