#include "forerun/api/corpus.h"
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
                   .help = "all that needs no training, in one tree: lookup+recycling, and "
                           "sam:MODEL.answers where forerun distill has written that folder"},
          .stands_for = [](const Model& target, bool finds) {
            StandsFor out{.parts = {"lookup", "recycling"}};
            if (finds && has_answers_beside(target, out.left_out)) {
              out.parts.push_back("sam:" + answers_folder(target));
            }
            return out;
          }};
}

}  // namespace forerun
