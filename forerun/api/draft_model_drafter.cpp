#include <fmt/format.h>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_impl.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "forerun/methods/draft_model/draft_model.h"
#include "forerun/methods/text/controlled_drafter.h"

namespace forerun {
namespace {

struct DraftModelMethod final : Drafter::Method {
  explicit DraftModelMethod(Model m) : drafting(std::move(m)) {}
  bool has_laws() const override { return true; }
  bool finds() const override { return false; }
  const Model* model() const override { return &drafting; }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    return std::make_shared<ControlledDrafter<DraftModelDrafter>>(
        DraftModelDrafter(impl_of(drafting).lm), std::move(setup.control), setup.max_draft);
  }
  Model drafting;
};

Model drafting_model(const Model& target, const std::string& path, PrecisionRequest precision) {
  Model drafting = Model::load(path, precision);
  const auto difference =
      vocabulary_difference(impl_of(target).tokenizer, impl_of(drafting).tokenizer);
  const bool same_scores = target.vocab() == drafting.vocab();
  if (!difference && same_scores) return drafting;
  throw UsageError(
      fmt::format("{} cannot draft for {}: {}; a drafting model must share the target's vocabulary",
                  drafting.path(), target.path(),
                  difference.value_or(fmt::format("the one scores {} tokens, the other {}",
                                                  drafting.vocab(), target.vocab()))));
}

}  // namespace

DrafterKind draft_model_drafter() {
  return {.info = {.name = "draft-model",
                   .argument = "PATH",
                   .help = "a smaller language model of the same vocabulary"},
          .load = [](const DrafterLoad& load) {
            if (!load.beside.empty()) {
              throw UsageError(fmt::format("a draft-model drafts alone: leave out +{}",
                                           load.beside.front().name));
            }
            return std::make_shared<const DraftModelMethod>(
                drafting_model(load.target, load.argument, load.precision));
          }};
}

}  // namespace forerun
