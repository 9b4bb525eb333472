#include "forerun/core/acceptance.h"

#include <algorithm>

namespace forerun {
namespace {

constexpr double kPrior = 0.5;
constexpr double kPriorWeight = 2.0;     // counts
constexpr double kBorrowedWeight = 4.0;  // weight, in counts, of a borrowed probability
constexpr double kSequenceWeight = 6.0;
constexpr double kCountedRounds = 64.0;  // rounds
constexpr double kSequenceMemory = 16.0;
constexpr double kIdleSequenceMemory = 128.0;

double rate(const Acceptance::Cell& c, double borrowed, double weight) noexcept {
  return (c.kept + weight * borrowed) / (c.examined + weight);
}

void add(Acceptance::Cell& c, bool kept) noexcept {
  c.examined += 1.0;
  c.kept += kept ? 1.0 : 0.0;
}

void forget(Acceptance::Cell& c) noexcept {
  c.examined *= 1.0 - 1.0 / kCountedRounds;
  c.kept *= 1.0 - 1.0 / kCountedRounds;
}

}  // namespace

double SequenceBias::apply(double probability) const noexcept {
  const double odds = (kept_ + kSequenceWeight) / (kept_expected_ + kSequenceWeight) *
                      (dropped_expected_ + kSequenceWeight) / (dropped_ + kSequenceWeight);
  return odds * probability / (odds * probability + 1.0 - probability);
}

void SequenceBias::observe(double expected, bool kept) noexcept {
  (kept ? kept_ : dropped_) += 1.0;
  kept_expected_ += expected;
  dropped_expected_ += 1.0 - expected;
  touched_ = true;
}

void SequenceBias::next_round() noexcept {
  const double keep = 1.0 - 1.0 / (touched_ ? kSequenceMemory : kIdleSequenceMemory);
  for (double* count : {&kept_, &kept_expected_, &dropped_, &dropped_expected_}) *count *= keep;
  touched_ = false;
}

double Acceptance::Along::next() noexcept {
  const std::size_t at = std::min(position_, kPositions - 1);
  ++position_;
  return before_ = rate((*cells_)[at], before_, kBorrowedWeight);
}

Acceptance::Along Acceptance::along(std::size_t confidence_bin) const noexcept {
  const double all = rate(total_, kPrior, kPriorWeight);
  return {confidence_bins_[confidence_bin].cells,
          rate(confidence_bins_[confidence_bin].total, all, kBorrowedWeight)};
}

double Acceptance::probability(std::size_t confidence_bin, std::size_t position) const noexcept {
  Along here = along(confidence_bin);
  for (std::size_t j = 0; j < std::min(position, kPositions - 1); ++j) here.next();
  return here.next();
}

const Acceptance::Cell& Acceptance::cell(std::size_t confidence_bin,
                                         std::size_t position) const noexcept {
  return confidence_bins_[confidence_bin].cells[std::min(position, kPositions - 1)];
}

void Acceptance::observe(std::size_t confidence_bin, std::size_t position, bool kept) noexcept {
  Bin& g = confidence_bins_[confidence_bin];
  add(g.cells[std::min(position, kPositions - 1)], kept);
  add(g.total, kept);
  add(total_, kept);
  g.touched = true;
}

void Acceptance::next_round() noexcept {
  bool any = false;
  for (Bin& g : confidence_bins_) {
    if (!g.touched) continue;
    for (Cell& c : g.cells) forget(c);
    forget(g.total);
    g.touched = false;
    any = true;
  }
  if (any) forget(total_);
}

}  // namespace forerun
