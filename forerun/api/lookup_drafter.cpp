#include "forerun/api/drafter_method.h"
#include "forerun/methods/lookup/lookup.h"
#include "forerun/methods/lookup/lookup_source.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"

namespace forerun {
namespace {

struct LookupMethod final : Drafter::Method {
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    if (!setup.trees) {
      return std::make_shared<ControlledDrafter<LookupDrafter>>(
          LookupDrafter(), std::move(setup.control), setup.max_draft);
    }
    std::vector<std::unique_ptr<TreeSource>> found;
    found.push_back(std::make_unique<LookupSource>());
    return std::make_shared<TreeDrafter>(std::move(found), nullptr, std::move(setup.control),
                                         setup.max_draft);
  }
};

}  // namespace

DrafterKind lookup_drafter() {
  return {{.name = "lookup",
           .argument = "",
           .help = "what followed the text's last words when they occurred before"},
          [](const Model&, const std::string&, PrecisionRequest) {
            return std::make_shared<const LookupMethod>();
          }};
}

}  // namespace forerun
