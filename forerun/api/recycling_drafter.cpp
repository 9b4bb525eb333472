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

}  // namespace forerun
