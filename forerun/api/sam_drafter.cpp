#include "forerun/api/corpus.h"
#include "forerun/api/drafter_method.h"
#include "forerun/methods/sam/corpus_source.h"
#include "forerun/methods/sam/sam_source.h"

namespace forerun {

DrafterKind sam_drafter() {
  const auto own = [] { return std::make_unique<SamSource>(); };
  return {.info = {.name = "sam",
                   .argument = "FOLDER",
                   .help = "a suffix automaton of the text: matches of any length, with counts; "
                           "with FOLDER also what followed in answers of forerun distill",
                   .optional = true},
          .source = own,
          .sources = [own](const Model& target, const std::string& folder) {
            return std::vector<FoundSource>{
                {"sam", own}, {"sam:" + folder, [index = load_corpus(folder, target)] {
                                 return std::make_unique<CorpusSource>(index);
                               }}};
          }};
}

}  // namespace forerun
