#include "forerun/api/corpus.h"
#include "forerun/api/drafter_method.h"

namespace forerun {
namespace {

StandsFor what_is_at_hand(const Model& target, bool finds) {
  StandsFor out{.parts = {"lookup", "recycling"}};
  if (finds && has_answers_beside(target, out.left_out)) {
    out.parts.push_back("sam:" + answers_folder(target));
  }
  return out;
}

}  // namespace

DrafterKind auto_drafter() {
  return {
      .info = {.name = "auto",
               .argument = "",
               .help = "what is at hand, in one tree: lookup+recycling; sam:MODEL.answers where "
                       "forerun distill has written that folder; the trained drafter "
                       "MODEL.drafter where there is one"},
      .stands_for = what_is_at_hand};
}

}  // namespace forerun
