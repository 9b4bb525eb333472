#pragma once

#include <vector>

#include "forerun/core/sequence.h"

namespace forerun {

/// Drops the candidates that the text's grammar forbids after a path of drafts.
/// @param path   gives it; called if there is a grammar
/// @param token  of a candidate
template <class Path, class Candidate, class TokenOf>
void keep_allowed(const TokenSequence& sequence, const Path& path,
                  std::vector<Candidate>& candidates, const TokenOf& token) {
  if (candidates.empty() || !sequence.changed().constrained()) return;
  ChangedLogits changed = sequence.changed();
  for (const Token drafted : path()) changed.push(drafted);
  const AllowedTokens possible = changed.allowed();
  std::erase_if(candidates, [&](const Candidate& c) { return !possible(token(c)); });
}

}  // namespace forerun
