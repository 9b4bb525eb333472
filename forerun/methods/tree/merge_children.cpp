#include "forerun/methods/tree/merge_children.h"

#include <algorithm>
#include <cstddef>

namespace forerun {

std::vector<TreeChild> merge_children(std::span<const TreeChild> children,
                                      const Agreement& agreement) {
  std::vector<TreeChild> out;
  std::vector<Token> tokens;  // of `out`, side by side: there are some twenty
  out.reserve(children.size());
  tokens.reserve(children.size());
  for (const TreeChild& child : children) {
    const auto at = static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), child.token) -
                                             tokens.begin());
    if (at == tokens.size()) {
      tokens.push_back(child.token);
      out.push_back(child);
      out.back().second = 0.0;
    } else if (child.probability > out[at].probability) {
      const double second = out[at].probability;
      out[at] = child;
      out[at].second = second;
    } else {
      out[at].second = std::max(out[at].second, child.probability);
    }
  }
  for (TreeChild& child : out) {
    child.first = child.probability;
    child.probability = agreement.probability(child.first, child.second);
  }
  return out;
}

}  // namespace forerun
