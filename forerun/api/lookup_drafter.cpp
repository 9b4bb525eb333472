#include "forerun/api/drafter_method.h"
#include "forerun/methods/lookup/lookup_source.h"

namespace forerun {

DrafterKind lookup_drafter() {
  return {.info = {.name = "lookup",
                   .argument = "",
                   .help = "what followed the text's last words when they occurred before"},
          .source = [] { return std::make_unique<LookupSource>(); }};
}

}  // namespace forerun
