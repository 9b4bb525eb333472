#include "forerun/api/drafter_method.h"
#include "forerun/methods/lookahead/lookahead_source.h"

namespace forerun {

DrafterKind lookahead_drafter() {
  return {.info = {.name = "lookahead",
                   .argument = "",
                   .help = "n-grams that the model makes itself, in rows beside the text's own"},
          .source = [] { return std::make_unique<LookaheadSource>(); }};
}

}  // namespace forerun
