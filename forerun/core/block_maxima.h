#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace forerun {

/// The largest value, NaN passed over; -infinity of none.
float largest(std::span<const float> x);

/// The largest value of each block of so many values: most blocks of a row of logits hold nothing
/// that is looked for, and one comparison tells.
std::vector<float> block_maxima(std::span<const float> x, std::size_t block);

/// The nth largest value, -infinity if there are fewer. Of block maxima, a lower bound: at least n
/// values of the row are as large.
/// @param n  at least 1
float nth_largest(std::vector<float> x, std::size_t n);

}  // namespace forerun
