#include "forerun/certificate.h"

#include <algorithm>
#include <cmath>

namespace forerun {

bool Certificate::passed() const {
  if (outputs == 0 || (scored != Scored::kTokens && drafted == 0)) return false;
  return report.passed() && std::abs(expected_z) < 4.0 && counterfactuals.violations == 0 &&
         std::all_of(differences.begin(), differences.end(),
                     [](const Difference& d) { return d.tie; });
}

std::string Certificate::verdict() const {
  if (outputs == 0) return "nothing to judge";
  if (!deterministic) return passed() ? "no bias found" : "biased";
  if (!passed()) return "different";
  return differences.empty() ? "identical" : "identical up to ties";
}

}  // namespace forerun
