#pragma once

#include <mutex>
#include <optional>

#include "forerun/core/draft_length.h"
#include "forerun/model.h"

namespace forerun {

/// What earlier runs with a drafter taught: costs and acceptance. Valid for one target and rule.
struct Drafter::Learned {
  std::mutex mutex;
  std::optional<DraftLength> control;
  const Model::Impl* target = nullptr;
  Rule rule = Rule::kMaximal;
};

}  // namespace forerun
