#pragma once

#include "forerun/models/dflash/dflash.h"

namespace forerun {

/// The network as passes in 4 bits compute it, for training: matrices that a pass reads whole are
/// straight_through_four_bits of those of `model`, the head included; everything else is shared.
/// @param model  of float32, every matrix with multiples of 32 inputs
DFlash rounded_to_four_bits(const DFlash& model);

/// Whether float16 holds the scales of all its weights in 4 bits; else passes keep them as they
/// are.
bool fits_four_bits(DFlash model);

}  // namespace forerun
