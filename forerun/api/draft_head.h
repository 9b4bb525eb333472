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

/// @throws UsageError  a block that is not the target's, or its last one
void check_feature_layers(const std::vector<std::int64_t>& layers, const DecoderConfig& target);

/// The rows of a target's head that a draft vocabulary names.
/// @param tokens  [draft_vocab] int64; undefined: all tokens
/// @return        [draft_vocab, hidden] float32
at::Tensor head_rows(const DecoderLm& numbers, const at::Tensor& tokens);

/// What makes a target's laws over a draft vocabulary.
/// @param numbers  the target's last norm and head as float32
/// @param tokens   [draft_vocab] int64; undefined: all tokens
/// @param rows     [draft_vocab, hidden] float32: their rows of the head; everything is on their
///                 device
TargetHead head_over(const DecoderLm& numbers, const at::Tensor& tokens, const at::Tensor& rows);

}  // namespace forerun
