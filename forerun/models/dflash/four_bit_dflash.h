#pragma once

#include "forerun/models/dflash/dflash.h"

namespace forerun {

/// The network as passes in 4 bits compute it, for training: matrices that a pass reads whole are
/// those of four_bit_weights, the head included. Gradients pass through the rounding unchanged
/// (the straight-through estimator, Bengio, Leonard and Courville 2013, arXiv:1308.3432), so they
/// reach the leaves of `model`; everything else is shared.
/// @param model  of float32, every matrix with multiples of 32 inputs
DFlash rounded_to_four_bits(const DFlash& model);

}  // namespace forerun
