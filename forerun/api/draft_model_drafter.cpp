#include <fmt/format.h>

#include <algorithm>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_impl.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "forerun/methods/draft_model/draft_model.h"
#include "forerun/methods/draft_model/draft_model_source.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"

namespace forerun {
namespace {

struct DraftModelMethod final : Drafter::Method {
  explicit DraftModelMethod(Model m) : drafting(std::move(m)) {}
  bool has_laws() const override { return true; }
  bool finds() const override { return !beside.empty(); }
  const Model* model() const override { return &drafting; }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    if (!beside.empty() && !setup.samples && setup.trees) {
      return std::make_shared<TreeDrafter>(
          make_sources(beside),
          std::make_unique<DraftModelSource>(impl_of(drafting).lm,
                                             std::min(setup.max_draft, kMostSteps)),
          std::move(setup.control), setup.max_draft);
    }
    // Sources beside it have no laws: they take no part in sampled drafts.
    return std::make_shared<ControlledDrafter<DraftModelDrafter>>(
        DraftModelDrafter(impl_of(drafting).lm), std::move(setup.control), setup.max_draft);
  }
  Model drafting;
  std::vector<FoundSource> beside;

 private:
  static constexpr std::size_t kMostSteps = 5;  // of its chain in a tree
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
            auto method = std::make_shared<DraftModelMethod>(
                drafting_model(load.target, load.argument, load.precision));
            method->beside = load.beside;
            return method;
          }};
}

}  // namespace forerun
