#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "forerun/models/decoder_lm.h"

namespace forerun {

/// A copy of a decoder that takes part in training without being trained: matrices in the type of
/// products, everything else in float32, q/k/v and gate/up (but of experts) side by side, so that
/// each is one product.
/// @param decoder   of numbers (not packed); unchanged
/// @param matrices  bfloat16 under autocast, else float32
DecoderLm frozen_decoder(const DecoderLm& decoder, at::ScalarType matrices,
                         const at::Device& device = at::kCPU);

}  // namespace forerun
