#include <fmt/format.h>

#include "forerun/api/learned.h"
#include "forerun/api/model_impl.h"
#include "forerun/forerun.h"
#include "forerun/formats/tokenizer/vocabulary.h"

namespace forerun {
namespace {

constexpr std::string_view kDraftModel = "draft-model:";

}  // namespace

Drafter::Drafter() : learned_(std::make_shared<Learned>()) {}

Drafter Drafter::fresh() const {
  Drafter out(*this);
  out.learned_ = std::make_shared<Learned>();
  return out;
}

Drafter Drafter::load(std::string_view name, const Model& target, Precision precision) {
  Drafter out;
  out.name_ = std::string(name);
  if (name == "none" || name == "lookup") return out;
  if (!name.starts_with(kDraftModel) || name.size() == kDraftModel.size()) {
    throw UsageError(
        fmt::format("unknown drafter '{}': none, lookup and draft-model:PATH are there", name));
  }
  out.model_ = Model::load(std::string(name.substr(kDraftModel.size())), precision);
  const auto difference =
      vocabulary_difference(target.impl().tokenizer, out.model_->impl().tokenizer);
  const bool same_scores = target.vocab() == out.model_->vocab();
  if (difference || !same_scores) {
    throw UsageError(fmt::format(
        "{} cannot draft for {}: {}; a drafting model must share the target's vocabulary",
        out.model_->path(), target.path(),
        difference.value_or(fmt::format("the one scores {} tokens, the other {}",
                                        out.model_->vocab(), target.vocab()))));
  }
  return out;
}

}  // namespace forerun
