#include "forerun/api/drafter_method.h"
#include "forerun/methods/lookup/lookup_source.h"
#include "forerun/methods/sam/sam_source.h"

namespace forerun {

DrafterKind lookup_drafter() {
  return {.info = {.name = "lookup",
                   .argument = "",
                   .help = "what followed the text's last words when they occurred before"},
          .source = [] { return std::make_unique<LookupSource>(); }};
}

DrafterKind sam_drafter() {
  return {.info = {.name = "sam",
                   .argument = "",
                   .help = "the same by a suffix automaton: matches of any length, with counts"},
          .source = [] { return std::make_unique<SamSource>(); }};
}

}  // namespace forerun
