#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "forerun/api/drafter_method.h"
#include "forerun/api/learned.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/text/source_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"

namespace forerun {
namespace {

class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }
  std::vector<DrafterKind> kinds() const {
    const std::scoped_lock lock(mutex_);
    return kinds_;
  }
  // False: the name is taken.
  bool add(DrafterKind kind) {
    const std::scoped_lock lock(mutex_);
    const bool taken = kind.info.name == "none" ||
                       std::any_of(kinds_.begin(), kinds_.end(), [&](const DrafterKind& k) {
                         return k.info.name == kind.info.name;
                       });
    if (!taken) kinds_.push_back(std::move(kind));
    return !taken;
  }

 private:
  mutable std::mutex mutex_;
  // A new method is a line here.
  std::vector<DrafterKind> kinds_ = {
      lookup_drafter(),    sam_drafter(),       recycling_drafter(),
      lookahead_drafter(), tidar_drafter(),     draft_model_drafter(),
      dflash_drafter(),    diffuspec_drafter(), auto_drafter()};
};

const DrafterKind* find(std::span<const DrafterKind> kinds, std::string_view name) {
  const auto at = std::find_if(kinds.begin(), kinds.end(),
                               [&](const DrafterKind& k) { return k.info.name == name; });
  return at == kinds.end() ? nullptr : &*at;
}

// Sources named after pluses, the first one first; cut from `name`. A path may hold a plus.
std::vector<FoundSource> take_beside(std::span<const DrafterKind> kinds, std::string& name) {
  std::vector<FoundSource> out;
  for (std::size_t plus; (plus = name.rfind('+')) != std::string::npos; name.resize(plus)) {
    const DrafterKind* kind = find(kinds, std::string_view(name).substr(plus + 1));
    if (kind == nullptr || !kind->source) break;
    if (std::any_of(out.begin(), out.end(),
                    [&](const FoundSource& s) { return s.name == kind->info.name; })) {
      throw UsageError(fmt::format("'{}' is named twice: name each source once", kind->info.name));
    }
    out.insert(out.begin(), {kind->info.name, kind->source});
  }
  return out;
}

// Sources that need no model, in one tree.
struct FoundMethod final : Drafter::Method {
  explicit FoundMethod(std::vector<FoundSource> s) : sources(std::move(s)) {}
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    return std::make_shared<TreeDrafter>(
        make_sources(sources), nullptr, std::move(setup.control), setup.max_draft,
        setup.trees ? TreeDrafter::Shape::kTree : TreeDrafter::Shape::kChain);
  }
  std::vector<FoundSource> sources;
};

std::string usage_of(const DrafterInfo& info) {
  return info.argument.empty() ? info.name : info.name + ":" + info.argument;
}

struct SourceMethod final : Drafter::Method {
  SourceMethod(Model t, std::string a, MakeDraftSource m)
      : target(std::move(t)), argument(std::move(a)), make_source(std::move(m)) {}
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    return std::make_shared<ControlledDrafter<SourceDrafter>>(
        SourceDrafter(make_source(target, argument)), std::move(setup.control), setup.max_draft);
  }
  Model target;
  std::string argument;
  MakeDraftSource make_source;
};

}  // namespace

std::vector<std::unique_ptr<TreeSource>> make_sources(std::span<const FoundSource> sources) {
  std::vector<std::unique_ptr<TreeSource>> out;
  for (const FoundSource& source : sources) out.push_back(source.make());
  return out;
}

Drafter::Drafter() : learned_(std::make_shared<Learned>()) {}

Drafter Drafter::fresh() const {
  Drafter out(*this);
  out.learned_ = std::make_shared<Learned>();
  return out;
}

bool Drafter::has_laws() const { return method_ && method_->has_laws(); }

std::optional<Model> Drafter::model() const {
  const Model* model = method_ ? method_->model() : nullptr;
  return model != nullptr ? std::optional(*model) : std::nullopt;
}

Drafter Drafter::load(std::string_view name, const Model& target, PrecisionRequest precision) {
  Drafter out;
  out.name_ = std::string(name);
  if (name == "none") return out;
  const std::vector<DrafterKind> kinds = Registry::instance().kinds();
  std::string rest(name);
  if (const DrafterKind* kind = find(kinds, name); kind != nullptr && !kind->stands_for.empty()) {
    rest = kind->stands_for;
  }
  std::vector<FoundSource> beside = take_beside(kinds, rest);
  const std::string head(rest.substr(0, rest.find(':')));
  const std::string argument(rest.substr(std::min(rest.size(), head.size() + 1)));
  const DrafterKind* kind = find(kinds, head);
  if (kind == nullptr || !kind->stands_for.empty()) {
    std::string all = "none";
    for (const DrafterKind& k : kinds) all += ", " + usage_of(k.info);
    throw UsageError(fmt::format(
        "unknown drafter '{}': there are {}; those without a model can be added with a plus", name,
        all));
  }
  if (kind->info.argument.empty() ? rest.size() != head.size() : argument.empty()) {
    throw UsageError(fmt::format("drafter '{}': give {}", name, usage_of(kind->info)));
  }
  if (kind->source) {
    if (std::any_of(beside.begin(), beside.end(),
                    [&](const FoundSource& s) { return s.name == head; })) {
      throw UsageError(fmt::format("'{}' is named twice: name each source once", head));
    }
    beside.insert(beside.begin(), {head, kind->source});
    out.method_ = std::make_shared<const FoundMethod>(std::move(beside));
  } else {
    out.method_ = kind->load({target, argument, std::move(beside), precision});
  }
  return out;
}

void register_drafter(const DrafterInfo& info, MakeDraftSource make) {
  if (info.name.empty() || info.name.find_first_of(":+") != std::string::npos) {
    throw UsageError(fmt::format(
        "a drafter cannot be named '{}': give a name without a colon or a plus", info.name));
  }
  const auto with_source = [make = std::move(make)](const DrafterLoad& load) {
    if (!load.beside.empty()) {
      throw UsageError(
          fmt::format("this drafter drafts alone: leave out +{}", load.beside.front().name));
    }
    return std::make_shared<const SourceMethod>(load.target, load.argument, make);
  };
  if (!Registry::instance().add({.info = info, .load = with_source})) {
    throw UsageError(fmt::format("there is a drafter named '{}' already", info.name));
  }
}

std::vector<DrafterInfo> registered_drafters() {
  std::vector<DrafterInfo> out;
  for (const DrafterKind& kind : Registry::instance().kinds()) out.push_back(kind.info);
  return out;
}

}  // namespace forerun
