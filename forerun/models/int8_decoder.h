#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "forerun/models/decoder_config.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/models/int8_block.h"

namespace forerun {

/// Working memory of a pass; grows to the largest pass so far.
struct Int8Workspace;

/// A decoder whose linear layers are int8 or 4 bits (Precision::kInt8, kInt4), on processors with
/// AVX2. One job runs through all layers on all threads. The logits of a row depend only on the
/// tokens that it sees: bit for bit the same in a chain or in a tree, in a pass of one row or of
/// many, with any other sequences, on any number of threads.
class Int8Decoder {
 public:
  Int8Decoder(const DecoderConfig& config, at::Tensor embedding, std::vector<Int8Block> layers,
              RmsNorm final_norm, Int8Matrix head);
  ~Int8Decoder();

  /// For keys and values; DecoderLm::make_cache adds the state of recurrent layers.
  KvCache make_cache(std::shared_ptr<KvPool> pool = nullptr) const;
  /// As `forward` of decoder_lm.h, which has checked the arguments.
  /// @param plans  of the sequences' rows; moved to the caches
  at::Tensor forward(std::span<const SequenceSpan> sequences, std::span<RowPlan> plans,
                     std::span<const std::int64_t> kept) const;
  /// Bytes that a pass of one row reads of the weights.
  std::int64_t weight_bytes() const noexcept;
  /// [vocab, hidden] bfloat16, contiguous.
  const at::Tensor& embedding() const noexcept { return embedding_; }

 private:
  friend class Int8Pass;
  DecoderConfig config_;
  at::Tensor embedding_;
  std::vector<Int8Block> layers_;
  RmsNorm final_norm_;
  Int8Matrix head_;
  std::unique_ptr<Int8Workspace> workspace_;
  mutable std::mutex one_pass_;
};

}  // namespace forerun
