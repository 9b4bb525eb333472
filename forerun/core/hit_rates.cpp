#include "forerun/core/hit_rates.h"

namespace forerun {
namespace {

constexpr double kMost = 512.0;        // observations of a cell
constexpr double kGroupWeight = 8.0;   // of a group's rate, in observations of a cell
constexpr double kPriorWeight = 16.0;  // of the prior, in observations of a group

}  // namespace

HitRates::HitRates(std::size_t cells, std::span<const double> priors)
    : cells_(cells), groups_(priors.size()), priors_(priors.begin(), priors.end()) {}

void HitRates::Count::add(bool hit) noexcept {
  if (examined >= kMost) {
    examined *= 0.5;
    hits *= 0.5;
  }
  examined += 1.0;
  hits += hit ? 1.0 : 0.0;
}

double HitRates::probability(Cell of) const noexcept {
  const Count &cell = cells_[of.cell], &group = groups_[of.group];
  const double rate =
      (group.hits + kPriorWeight * priors_[of.group]) / (group.examined + kPriorWeight);
  return (cell.hits + kGroupWeight * rate) / (cell.examined + kGroupWeight);
}

void HitRates::observe(Cell of, bool hit) noexcept {
  cells_[of.cell].add(hit);
  groups_[of.group].add(hit);
}

}  // namespace forerun
