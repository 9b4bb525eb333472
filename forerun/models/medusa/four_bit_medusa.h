#pragma once

#include "forerun/models/medusa/medusa.h"

namespace forerun {

/// A network as training with weight_bits 4 computes it: matrices that a pass reads whole are
/// rounded to 4 bits; gradients reach the weights that it had.
Medusa rounded_to_four_bits(const Medusa& model);

/// Whether float16 holds the scales of these weights in 4 bits.
bool fits_four_bits(Medusa model);

}  // namespace forerun
