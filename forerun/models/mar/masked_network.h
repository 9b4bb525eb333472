#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/models/mar/packed_block.h"

namespace forerun {

/// The backbone of the masked form packed for sampling on the CPU. Its bits do not depend on the
/// number of threads (that of ATen). Constant after construction, so threads may share it.
class MaskedNetwork {
 public:
  /// @throws std::invalid_argument  another form; a width that is no multiple of 16
  explicit MaskedNetwork(const Mar& model);

  const MarConfig& config() const noexcept { return config_; }

  /// The backbone's outputs for all tokens of an image (models/mar/mar_masked.h).
  /// @param tokens  [tokens, dim] by patch; those that are not known are not read
  /// @param known   [tokens]: the known ones are not 0
  /// @param label   below `classes`, or `classes` for none
  /// @return        [tokens, hidden]
  /// @throws std::invalid_argument  other sizes, or another label
  std::vector<float> outputs(std::span<const float> tokens, std::span<const std::uint8_t> known,
                             std::int64_t label) const;

 private:
  struct Pass;
  template <class Each>
  void encode(Pass& pass, const Each& each) const;
  template <class Each>
  void decode(Pass& pass, const Each& each) const;
  template <class Each>
  void run_blocks(const std::vector<PackedBlock>& blocks, Pass& pass, const Each& each) const;

  MarConfig config_;
  RowMatrix input_, decoder_input_;
  std::vector<float> labels_, mask_, encoder_places_, decoder_places_, head_places_;  // tables
  std::vector<float> input_weight_, input_bias_, encoder_weight_, encoder_bias_, decoder_weight_,
      decoder_bias_;  // of norms
  std::vector<PackedBlock> encoder_, decoder_;
};

}  // namespace forerun
