#include <fmt/format.h>

#include <algorithm>

#include "forerun/api/model_impl.h"
#include "forerun/forerun.h"

namespace forerun {
namespace {

constexpr std::string_view kDraftModel = "draft-model:";

// Which entries differ, or nothing. Speculation compares ids, so every id must mean the same.
std::optional<std::string> vocabulary_difference(const Model& target, const Model& draft) {
  const Tokenizer& a = target.impl().tokenizer;
  const Tokenizer& b = draft.impl().tokenizer;
  const std::size_t common = std::min(a.vocab_size(), b.vocab_size());
  std::size_t differing = 0;
  std::string first;
  for (std::size_t i = 0; i < common; ++i) {
    const auto t = static_cast<Token>(i);
    if (a.name(t) == b.name(t)) continue;
    if (++differing <= 3)
      first +=
          fmt::format("{}id {}: '{}' / '{}'", first.empty() ? "" : ", ", i, a.name(t), b.name(t));
  }
  if (differing == 0 && a.vocab_size() == b.vocab_size() && target.vocab() == draft.vocab()) {
    return std::nullopt;
  }
  return fmt::format("{} and {} entries ({} and {} scored), {} of the common ids differ{}{}",
                     a.vocab_size(), b.vocab_size(), target.vocab(), draft.vocab(), differing,
                     first.empty() ? "" : ", first ", first);
}

}  // namespace

Drafter Drafter::load(std::string_view name, const Model& target, Precision precision) {
  Drafter out;
  out.name_ = std::string(name);
  if (name == "none" || name == "lookup") return out;
  if (!name.starts_with(kDraftModel) || name.size() == kDraftModel.size()) {
    throw UsageError(
        fmt::format("unknown drafter '{}': none, lookup and draft-model:PATH are there", name));
  }
  out.model_ = Model::load(std::string(name.substr(kDraftModel.size())), precision);
  if (const auto difference = vocabulary_difference(target, *out.model_)) {
    throw UsageError(fmt::format(
        "{} cannot draft for {}: their vocabularies differ: {}; a drafting model must share the "
        "target's vocabulary",
        out.model_->path(), target.path(), *difference));
  }
  return out;
}

}  // namespace forerun
