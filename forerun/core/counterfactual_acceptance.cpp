#include "forerun/core/counterfactual_acceptance.h"

#include <algorithm>

namespace forerun {

CounterfactualAcceptance::Waiting& CounterfactualAcceptance::slot(std::size_t confidence_bin,
                                                                  std::span<const Token> draft,
                                                                  std::size_t agreed) {
  auto slot = std::find_if(waiting_.begin(), waiting_.end(),
                           [](const Waiting& w) { return w.next >= w.tokens.size(); });
  if (slot == waiting_.end() && waiting_.size() < kMost) slot = waiting_.emplace(slot);
  if (slot == waiting_.end()) {
    slot = std::min_element(waiting_.begin(), waiting_.end(),
                            [](const Waiting& a, const Waiting& b) { return a.added < b.added; });
  }
  slot->tokens.assign(draft.begin(), draft.end());
  slot->confidence_bin = confidence_bin;
  slot->next = agreed;
  slot->added = ++added_;
  return *slot;
}

}  // namespace forerun
