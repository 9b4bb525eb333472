#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "forerun/api/drafter_method.h"
#include "forerun/api/learned.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/text/source_drafter.h"

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
  std::vector<DrafterKind> kinds_ = {lookup_drafter(), draft_model_drafter(), dflash_drafter()};
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
  const std::string kind(name.substr(0, name.find(':')));
  const std::string argument(name.substr(std::min(name.size(), kind.size() + 1)));
  std::string all = "none";
  for (const DrafterKind& k : Registry::instance().kinds()) {
    all += ", " + usage_of(k.info);
    if (k.info.name != kind) continue;
    if (k.info.argument.empty() ? name.size() != kind.size() : argument.empty()) {
      throw UsageError(fmt::format("drafter '{}': give {}", name, usage_of(k.info)));
    }
    out.method_ = k.load(target, argument, precision);
    return out;
  }
  throw UsageError(fmt::format("unknown drafter '{}': there are {}", name, all));
}

void register_drafter(const DrafterInfo& info, MakeDraftSource make) {
  if (info.name.empty() || info.name.find_first_of(":+") != std::string::npos) {
    throw UsageError(fmt::format(
        "a drafter cannot be named '{}': give a name without a colon or a plus", info.name));
  }
  const auto load = [make = std::move(make)](const Model& target, const std::string& argument,
                                             PrecisionRequest) {
    return std::make_shared<const SourceMethod>(target, argument, make);
  };
  if (!Registry::instance().add({info, load})) {
    throw UsageError(fmt::format("there is a drafter named '{}' already", info.name));
  }
}

std::vector<DrafterInfo> registered_drafters() {
  std::vector<DrafterInfo> out;
  for (const DrafterKind& kind : Registry::instance().kinds()) out.push_back(kind.info);
  return out;
}

}  // namespace forerun
