#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// Phi(x), the standard normal distribution function.
double normal_cdf(double x) noexcept;

/// A Kolmogorov-Smirnov test.
struct KsResult {
  double statistic = 0.0;  ///< largest distance between empirical and stated distribution function
  double p = 1.0;          ///< asymptotic p-value, with Stephens' small-sample correction
};

/// Tests values against uniform [0, 1]; no values give p = 1, a NaN among them p = 0.
/// Source: Stephens 1970, J. R. Statist. Soc. B 32, table 1A.
KsResult ks_uniform(std::vector<double> values);

/// The same for values that were only counted, in cells of equal width: compared at the cells'
/// ends.
KsResult ks_uniform_counts(std::span<const std::uint32_t> cells);

/// Upper tail of chi-square with `freedom` degrees: the regularised incomplete gamma Q(freedom / 2,
/// x / 2); 0 for NaN.
double chi_square_tail(double x, double freedom) noexcept;

/// p-value of Pearson's test of counts against probabilities that sum to 1. Cells expecting fewer
/// than 5 are pooled; a pool that still expects fewer is judged by its Poisson tail, and the
/// smaller p is doubled. A count in a cell of probability 0 gives p = 0.
double chi_square_p(std::span<const double> probabilities, std::span<const std::size_t> counts);

}  // namespace forerun
