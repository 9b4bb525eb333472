#pragma once

#include <mutex>
#include <optional>

#include "forerun/api/access.h"
#include "forerun/core/draft_length.h"
#include "forerun/model.h"

namespace forerun {

/// What earlier runs with a drafter taught: costs and acceptance. Valid for one target and rule.
struct Drafter::Learned {
  std::mutex mutex;
  std::optional<DraftLength> control;
  const Model::Impl* target = nullptr;
  Rule rule = Rule::kMaximal;

  bool fits(const Model& model, Rule with) const {
    return control && target == &Access::impl(model) && rule == with;
  }
};

}  // namespace forerun
