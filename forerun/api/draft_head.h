#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/api/model_impl.h"
#include "forerun/formats/token_shards.h"
#include "forerun/train/answers/target_states.h"

namespace forerun {

/// A draft vocabulary: the tokens that a target says most, rising; those that end a text always.
/// @param data  its answers
/// @param size  0, or as many as the target has: all of them
/// @return      [size] int64; undefined: all tokens
at::Tensor draft_vocabulary(const Model::Impl& target, const std::vector<TokenShards>& data,
                            std::int64_t size);

/// What makes a target's laws over a draft vocabulary.
/// @param numbers  the target's last norm and head as float32
/// @param tokens   [draft_vocab] int64; undefined: all tokens
/// @param rows     [draft_vocab, hidden] float32: their rows of the head; everything is on their
///                 device
TargetHead head_over(const DecoderLm& numbers, const at::Tensor& tokens, const at::Tensor& rows);

}  // namespace forerun
