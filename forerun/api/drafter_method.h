#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/method.h"
#include "forerun/methods/text/text_drafter.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// What a drafter is made for.
struct DrafterSetup {
  DraftLength control;
  std::size_t max_draft = 0;
  bool samples = false;  ///< drafts with laws are drawn from them
  bool trees = true;     ///< the rule takes trees of deterministic drafts
};

/// A source of drafts that needs no model, as it is named after a plus.
struct FoundSource {
  std::string name;
  std::function<std::unique_ptr<TreeSource>()> make;
};
/// One of each.
std::vector<std::unique_ptr<TreeSource>> make_sources(std::span<const FoundSource> sources);

/// A drafter as it was loaded: what runs with it share.
struct Drafter::Method {
  virtual ~Method() = default;
  virtual bool has_laws() const { return false; }  ///< some drafts have one
  virtual bool finds() const { return true; }      ///< some drafts have none
  /// Outputs follow the target's law, by exact rules.
  virtual bool keeps_law() const { return true; }
  /// The model that drafts, if it is one of its own.
  virtual const Model* model() const { return nullptr; }
  virtual std::shared_ptr<TextDrafter> make(DrafterSetup setup) const = 0;
  /// The same network with these beside it; null: it is none that a folder holds.
  virtual std::shared_ptr<const Method> with(std::span<const FoundSource> /*beside*/) const {
    return nullptr;
  }
};

/// A network, and what drafts beside it.
template <class Derived>
struct NetworkMethod : Drafter::Method {
  std::shared_ptr<const Method> with(std::span<const FoundSource> sources) const override {
    auto out = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    out->beside.assign(sources.begin(), sources.end());
    return out;
  }
  std::vector<FoundSource> beside;
};

/// What a drafter is loaded with.
struct DrafterLoad {
  const Model& target;
  std::string argument;             ///< after the colon
  std::vector<FoundSource> beside;  ///< what is named after pluses, in that order
  PrecisionRequest precision;
};

/// What a short name stands for: sources, beside the network of drafter_folder if there is one.
struct StandsFor {
  std::vector<std::string> parts;
  std::string left_out = {};  ///< what is at hand and not among them, and why
};

/// An entry of the registry: a source without a model, which drafts alone or beside others, or a
/// drafter of another kind.
struct DrafterKind {
  DrafterInfo info;
  std::function<std::unique_ptr<TreeSource>()> source = {};
  /// Of a source that takes an argument: what it stands for with one.
  std::function<std::vector<FoundSource>(const Model& target, const std::string& argument)>
      sources = {};
  std::function<std::shared_ptr<const Drafter::Method>(const DrafterLoad&)> load = {};
  /// Whether a folder with this config.json, an object, holds one of its networks.
  std::function<bool(const nlohmann::json& config)> reads = {};
  /// The name is short for others: with answers that are found, or without, if a corpus is named.
  std::function<StandsFor(const Model& target, bool finds)> stands_for = {};
};

/// The built-in ones, each defined in a file of its own.
DrafterKind lookup_drafter();
DrafterKind sam_drafter();
DrafterKind recycling_drafter();
DrafterKind lookahead_drafter();
DrafterKind tidar_drafter();
DrafterKind auto_drafter();
DrafterKind draft_model_drafter();
DrafterKind dflash_drafter();
DrafterKind medusa_drafter();
DrafterKind diffuspec_drafter();

}  // namespace forerun
