#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/models/mar/masked_network.h"

namespace forerun {

/// The masked form as the law of one token after another. The tokens of an image come in a random
/// order of its own; those that one step of the published loop reveals are drawn from what was
/// known before that step (models/mar/mar_masked.h), so none of them depends on another.
class MaskedReader {
 public:
  /// @param steps  passes of the backbone over an image
  /// @throws std::invalid_argument  more steps than tokens, or none
  MaskedReader(std::shared_ptr<const MaskedNetwork> network, std::int64_t steps);

  /// Places [begin, end) of the tokens that one step reveals.
  struct Step {
    std::size_t begin = 0, end = 0;
  };
  Step step_of(std::size_t place) const;

  /// The patch of every place: a pure function of the sample's seed and request.
  std::vector<std::int64_t> order(const ChainSample& sample) const;

  /// Outputs of the backbone for places of a sample; one pass for each step that has some of them.
  /// @param tokens  of the sample's first places: those known before the last step, at least
  /// @param label   `classes` for none
  /// @return        [count, hidden]
  std::vector<float> outputs(const ChainSample& sample, std::span<const Latent* const> tokens,
                             std::size_t first, std::size_t count, std::int64_t label) const;

 private:
  std::shared_ptr<const MaskedNetwork> network_;
  std::vector<std::size_t> ends_;  // places known after each step
};

}  // namespace forerun
