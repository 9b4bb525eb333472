#include "forerun/api/corpus.h"
#include "forerun/api/drafter_method.h"

namespace forerun {
namespace {

// A network drafts where the text and the answers know nothing, as `recycling` does, and better.
StandsFor what_is_at_hand(const Model& target, const AtHand& at_hand) {
  StandsFor out;
  out.parts.emplace_back("lookup");
  if (!at_hand.network) out.parts.emplace_back("recycling");
  if (at_hand.answers && has_answers_beside(target, out.left_out)) {
    out.parts.push_back("sam:" + answers_folder(target));
  }
  return out;
}

}  // namespace

DrafterKind auto_drafter() {
  return {.info = {.name = "auto",
                   .argument = "",
                   .help = "what is at hand, in one tree: lookup; sam:MODEL.answers where forerun "
                           "distill has written that folder; the trained drafter MODEL.drafter "
                           "where there is one, else recycling"},
          .stands_for = what_is_at_hand};
}

}  // namespace forerun
