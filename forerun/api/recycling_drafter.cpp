#include "forerun/api/drafter_method.h"
#include "forerun/methods/recycling/recycling_source.h"

namespace forerun {

DrafterKind recycling_drafter() {
  return {
      .info = {.name = "recycling",
               .argument = "",
               .help = "what the model itself predicted after the same last words, in this text "
                       "or others"},
      .source = [] { return std::make_unique<RecyclingSource>(); }};
}

DrafterKind auto_drafter() {
  return {.info = {.name = "auto",
                   .argument = "",
                   .help = "all that needs no training, in one tree: lookup+recycling"},
          .stands_for = "lookup+recycling"};
}

}  // namespace forerun
