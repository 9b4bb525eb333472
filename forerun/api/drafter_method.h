#pragma once

#include <functional>
#include <memory>
#include <string>

#include "forerun/core/draft_length.h"
#include "forerun/method.h"
#include "forerun/methods/text/text_drafter.h"

namespace forerun {

/// What a drafter is made for.
struct DrafterSetup {
  DraftLength control;
  std::size_t max_draft = 0;
  bool samples = false;  ///< drafts with laws are drawn from them
  bool trees = true;     ///< the rule takes trees of deterministic drafts
};

/// A drafter as it was loaded: what runs with it share.
struct Drafter::Method {
  virtual ~Method() = default;
  virtual bool has_laws() const { return false; }  ///< some drafts have one
  virtual bool finds() const { return true; }      ///< some drafts have none
  /// The model that drafts, if it is one of its own.
  virtual const Model* model() const { return nullptr; }
  virtual std::shared_ptr<TextDrafter> make(DrafterSetup setup) const = 0;
};

/// An entry of the registry.
struct DrafterKind {
  DrafterInfo info;
  std::function<std::shared_ptr<const Drafter::Method>(
      const Model& target, const std::string& argument, PrecisionRequest precision)>
      load;
};

/// The built-in ones, each defined in a file of its own.
DrafterKind lookup_drafter();
DrafterKind draft_model_drafter();
DrafterKind dflash_drafter();

}  // namespace forerun
