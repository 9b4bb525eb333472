#pragma once

#include <span>
#include <vector>

#include "forerun/core/agreement.h"
#include "forerun/core/token_tree.h"

namespace forerun {

/// Merges the candidates of several sources for the token after a node into one candidate a token:
/// the likeliest, of equally likely ones the first. Its `first` and `second` are the largest and
/// the next estimate (0 if there is one alone), its `probability` is that of Agreement.
std::vector<TreeChild> merge_children(std::span<const TreeChild> children,
                                      const Agreement& agreement);

}  // namespace forerun
