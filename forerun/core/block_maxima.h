#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace forerun {

/// The largest value, NaN passed over; -infinity of none.
float largest(std::span<const float> x);

/// The largest value of each block of so many values: most blocks of a row of logits hold nothing
/// that is looked for, and one comparison tells.
std::vector<float> block_maxima(std::span<const float> x, std::size_t block);

/// The largest value of each of `pieces` pieces: of the values whose indices leave the same
/// remainder, NaN passed over.
/// @param pieces  from 1 to the size of x
std::vector<float> strided_maxima(std::span<const float> x, std::size_t pieces);

/// The nth largest value, -infinity if there are fewer. Of block maxima, a lower bound: at least n
/// values of the row are as large.
/// @param n  at least 1
float nth_largest(std::vector<float> x, std::size_t n);

/// A value at or little below the nth largest: at least n values are as large. With fewer than n
/// within `range` of the largest, `best - range` or a little less.
/// @param best   the largest of x, finite
/// @param range  above 0; the answer is below the nth largest by at most range / 128
float near_nth_largest(std::span<const float> x, float best, float range, std::size_t n);

constexpr std::size_t kWeighedBlock = 16;  ///< of the maxima of weight_between
/// Sum of exp((x - best) * inverse) over the values in [least, below), to float32 precision.
/// @param maxima  block_maxima(x, kWeighedBlock): blocks without such a value are skipped
double weight_between(std::span<const float> x, std::span<const float> maxima, float best,
                      float inverse, float least, float below);

/// Calls f(i) for every value that is at least `least`, in order.
/// @param maxima  block_maxima(x, block)
template <class F>
void each_at_least(std::span<const float> x, std::span<const float> maxima, std::size_t block,
                   float least, F&& f) {
  for (std::size_t b = 0; b < maxima.size(); ++b) {
    if (!(maxima[b] >= least)) continue;
    const std::size_t end = std::min(x.size(), (b + 1) * block);
    for (std::size_t i = b * block; i < end; ++i) {
      if (x[i] >= least) f(i);
    }
  }
}

}  // namespace forerun
