#include "forerun/api/drafter_method.h"
#include "forerun/methods/lookup/lookup.h"
#include "forerun/methods/text/controlled_drafter.h"

namespace forerun {
namespace {

struct LookupMethod final : Drafter::Method {
  std::shared_ptr<TextDrafter> make(DraftLength control, std::size_t max_draft) const override {
    return std::make_shared<ControlledDrafter<LookupDrafter>>(LookupDrafter(), std::move(control),
                                                              max_draft);
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
