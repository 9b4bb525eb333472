#pragma once

#include <span>
#include <vector>

#include "forerun/core/agreement.h"
#include "forerun/core/token_tree.h"

namespace forerun {

/// What several sources say of the tokens that may follow a node: one candidate a token, the
/// likeliest, of equally likely ones the first. `first` and `second` are the largest and the next
/// estimate of it, 0 if there is one alone, and `probability` is what they make together.
std::vector<TreeChild> merge_children(std::span<const TreeChild> children,
                                      const Agreement& agreement);

}  // namespace forerun
