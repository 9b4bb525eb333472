#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "forerun/api/drafter_beside.h"
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
  std::vector<DrafterKind> kinds_ = {lookup_drafter(),    sam_drafter(),    recycling_drafter(),
                                     lookahead_drafter(), tidar_drafter(),  draft_model_drafter(),
                                     dflash_drafter(),    medusa_drafter(), diffuspec_drafter(),
                                     auto_drafter()};
};

const DrafterKind* find(std::span<const DrafterKind> kinds, std::string_view name) {
  const auto at = std::find_if(kinds.begin(), kinds.end(),
                               [&](const DrafterKind& k) { return k.info.name == name; });
  return at == kinds.end() ? nullptr : &*at;
}

// A drafter's name, and what follows its colon.
struct Part {
  std::string name, argument;
  bool colon = false;
};
Part part_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {.name = std::string(text), .argument = {}};
  return {.name = std::string(text.substr(0, colon)),
          .argument = std::string(text.substr(colon + 1)),
          .colon = true};
}

// A source without a model, as it may follow a plus.
bool is_source(std::span<const DrafterKind> kinds, const Part& part) {
  const DrafterKind* kind = find(kinds, part.name);
  return kind != nullptr &&
         (part.colon ? kind->sources && !part.argument.empty() : kind->source || kind->stands_for);
}

// The first part may be anything, the others are sources. A path may hold a plus.
std::vector<std::string> parts_of(std::span<const DrafterKind> kinds, std::string_view name) {
  std::vector<std::string> out;
  for (std::size_t end = name.size(); end > 0;) {
    const std::size_t plus = name.rfind('+', end - 1);
    if (plus == std::string_view::npos) break;
    if (is_source(kinds, part_of(name.substr(plus + 1)))) {
      out.insert(out.begin(), std::string(name.substr(plus + 1)));
      name = name.substr(0, plus);
    }
    end = plus;
  }
  out.insert(out.begin(), std::string(name));
  return out;
}

// The same with what short names stand for. What is named goes before it: a folder before the one
// that they find, a source before their own.
StandsFor expanded(std::span<const DrafterKind> kinds, std::span<const std::string> parts,
                   const Model& target) {
  const bool names_folder = std::any_of(parts.begin(), parts.end(), [&](const std::string& text) {
    const Part part = part_of(text);
    const DrafterKind* kind = find(kinds, part.name);
    return part.colon && kind != nullptr && kind->sources;
  });
  StandsFor out;
  std::string found;  // the source of a folder that one of them found
  for (const std::string& part : parts) {
    const DrafterKind* kind = find(kinds, part);
    if (kind == nullptr || !kind->stands_for) {
      out.parts.push_back(part);
      continue;
    }
    StandsFor meant = kind->stands_for(target, !names_folder);
    for (std::string& one : meant.parts) {
      if (std::find(parts.begin(), parts.end(), one) != parts.end()) continue;
      if (const Part source = part_of(one); source.colon) found = source.name;
      out.parts.push_back(std::move(one));
    }
    out.left_out = std::move(meant.left_out);
  }
  if (!found.empty()) std::erase(out.parts, found);
  return out;
}

// Whether a network may be found for them: one of them is short, and none names a network.
bool may_find_network(std::span<const DrafterKind> kinds, std::span<const std::string> parts) {
  const auto is_short = [&](const std::string& part) {
    const DrafterKind* kind = find(kinds, part);
    return kind != nullptr && kind->stands_for;
  };
  return std::any_of(parts.begin(), parts.end(), is_short) &&
         std::all_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return is_source(kinds, part_of(part)); });
}

std::vector<FoundSource> sources_of(const DrafterKind& kind, const Part& part,
                                    const Model& target) {
  if (part.colon) return kind.sources(target, part.argument);
  return {{part.name, kind.source}};
}

std::vector<FoundSource> take_sources(std::span<const DrafterKind> kinds,
                                      std::span<const std::string> parts, const Model& target) {
  std::vector<FoundSource> out;
  std::vector<std::string> names;
  for (const std::string& text : parts) {
    const Part part = part_of(text);
    if (std::find(names.begin(), names.end(), part.name) != names.end()) {
      throw UsageError(fmt::format("'{}' is named twice in {}: name each source once", part.name,
                                   fmt::join(parts, "+")));
    }
    names.push_back(part.name);
    for (FoundSource& source : sources_of(*find(kinds, part.name), part, target)) {
      out.push_back(std::move(source));
    }
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

struct SourceMethod final : Drafter::Method {
  SourceMethod(std::string n, Model t, std::string a, MakeDraftSource m)
      : name(std::move(n)),
        target(std::move(t)),
        argument(std::move(a)),
        make_source(std::move(m)) {}
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    auto source = make_source(target, argument);
    if (source == nullptr) {
      throw UsageError(
          fmt::format("the drafter '{}' has no source: what makes it returned none", name));
    }
    return std::make_shared<ControlledDrafter<SourceDrafter>>(
        SourceDrafter(std::move(source)), std::move(setup.control), setup.max_draft);
  }
  std::string name;
  Model target;
  std::string argument;
  MakeDraftSource make_source;
};

// @param parts  the first may be anything, the others are sources
std::shared_ptr<const Drafter::Method> load_method(std::span<const DrafterKind> kinds,
                                                   std::string_view name,
                                                   std::span<const std::string> parts,
                                                   const Model& target,
                                                   PrecisionRequest precision) {
  const Part head = part_of(parts.front());
  const DrafterKind* kind = find(kinds, head.name);
  if (kind == nullptr) {
    std::string all = "none";
    for (const DrafterKind& k : kinds) all += ", " + k.info.usage();
    throw UsageError(fmt::format(
        "unknown drafter '{}': there are {}; sources without a network, such as lookup, can be "
        "added to any with a plus",
        name, all));
  }
  const DrafterInfo& info = kind->info;
  if (head.colon ? head.argument.empty() || info.argument.empty()
                 : !info.argument.empty() && !info.optional) {
    throw UsageError(fmt::format("drafter '{}': give {}", name, info.usage()));
  }
  if (kind->source) {
    return std::make_shared<const FoundMethod>(take_sources(kinds, parts, target));
  }
  return kind->load(
      {target, head.argument, take_sources(kinds, parts.subspan(1), target), precision});
}

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

bool Drafter::keeps_law() const { return !method_ || method_->keeps_law(); }

std::optional<Model> Drafter::model() const {
  const Model* model = method_ ? method_->model() : nullptr;
  return model != nullptr ? std::optional(*model) : std::nullopt;
}

Drafter Drafter::load(std::string_view name, const Model& target, PrecisionRequest precision) {
  Drafter out;
  out.name_ = std::string(name);
  if (name == "none") return out;
  const std::vector<DrafterKind> kinds = Registry::instance().kinds();
  const std::vector<std::string> named = parts_of(kinds, name);
  NetworkBeside found;
  if (may_find_network(kinds, named)) found = network_beside(kinds, target, precision);
  StandsFor meant = expanded(kinds, named, target);
  out.parts_ = std::move(meant.parts);
  if (found.network) {
    out.method_ = found.network->with(take_sources(kinds, out.parts_, target));
    out.parts_.insert(out.parts_.begin(), found.name);
  } else {
    out.method_ = load_method(kinds, name, out.parts_, target, precision);
  }
  out.left_out_ = std::move(meant.left_out);
  if (!found.left_out.empty()) {
    out.left_out_ += (out.left_out_.empty() ? "" : "; ") + found.left_out;
  }
  return out;
}

void register_drafter(const DrafterInfo& info, MakeDraftSource make) {
  if (info.name.empty() || info.name.find_first_of(":+") != std::string::npos) {
    throw UsageError(fmt::format(
        "a drafter cannot be named '{}': give a name without a colon or a plus", info.name));
  }
  if (!make) {
    throw UsageError(fmt::format("drafter '{}': give a function that makes it", info.name));
  }
  const auto with_source = [name = info.name, make = std::move(make)](const DrafterLoad& load) {
    if (!load.beside.empty()) {
      throw UsageError(
          fmt::format("this drafter drafts alone: leave out +{}", load.beside.front().name));
    }
    return std::make_shared<const SourceMethod>(name, load.target, load.argument, make);
  };
  if (!Registry::instance().add({.info = info, .load = with_source})) {
    throw UsageError(fmt::format("there is a drafter named '{}' already", info.name));
  }
}

std::string DrafterInfo::usage() const {
  if (argument.empty()) return name;
  return optional ? fmt::format("{}[:{}]", name, argument) : name + ":" + argument;
}

std::vector<std::string> drafter_parts(std::string_view name) {
  return parts_of(Registry::instance().kinds(), name);
}

std::vector<DrafterInfo> registered_drafters() {
  std::vector<DrafterInfo> out;
  for (const DrafterKind& kind : Registry::instance().kinds()) out.push_back(kind.info);
  return out;
}

}  // namespace forerun
