#include "forerun/engine/round_trace.h"

namespace forerun {

RoundTrace trace_of(const TextRound& round, std::size_t index) {
  const TokenDraft& draft = round.drafts[index];
  const Outcome& outcome = round.outcomes[index];
  const auto outputs = round.sequences[index]->tokens().last(outcome.emitted);
  RoundTrace out{.drafts = draft.tokens,
                 .parents = {},
                 .kept = {},
                 .outputs = {outputs.begin(), outputs.end()},
                 .drafter_seconds = round.seconds.drafter,
                 .target_seconds = round.seconds.target};
  for (std::size_t i = 0; i < draft.size(); ++i) out.parents.push_back(draft.parent(i));
  for (std::size_t i = 1; i <= outcome.accepted; ++i) {
    out.kept.push_back(static_cast<std::int32_t>(outcome.decided_by(i)) - 1);
  }
  return out;
}

}  // namespace forerun
