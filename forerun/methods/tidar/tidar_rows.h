#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/token_rule.h"
#include "forerun/methods/text/companion_rows.h"
#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Which replicas of the mask rows a pass has beside the drafts that it verifies.
enum class TidarForm : std::uint8_t {
  kMeasured,  ///< those that are expected to pay
  kFused,     ///< one for every number of drafts that may be kept
  kPruned,    ///< those that are likely to be needed
  kTwoPass,   ///< one, in passes without drafts
  kPlain,     ///< none
};

/// The mask rows that predict what follows if the outputs end with drafted token `after` and one
/// token more, c.
struct Replica {
  std::int32_t after = -1;        ///< -1: the text's newest token
  Token newest = 0;               ///< that token
  std::int64_t first_wanted = 0;  ///< the first slot whose logits are wanted
};
/// Adds a replica. Slot s stands s positions after c's; slots before `config.first_slot` have no
/// row. The rows see the text, the drafted tokens up to `after`, and each other. Where
/// `config.seeded`, a copy of token `after` comes first, and they see it in that token's place.
void add_replica(const std::shared_ptr<const GatedLora>& lora, const Replica& replica,
                 const TokenDraft& draft, CompanionRows& rows);

/// P(the last kept draft is token i), by i + 1: of the text itself, then of each drafted token.
/// @param reach  [draft.size()]: P(token i is an output)
std::vector<double> ends_of(const TokenDraft& draft, std::span<const double> reach);

/// The rows of a pass as docs/tidar.md draws them: a line a row with its position and an x where it
/// sees a row.
/// @param draft  a chain
/// @param text   tokens before the draft; the last one is in the pass
std::string drawn(const TokenDraft& draft, const CompanionRows& rows, std::int64_t text);

}  // namespace forerun
