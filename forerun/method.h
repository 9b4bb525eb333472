#pragma once

/// Drafters of your own: register one, and its name works wherever a drafter is named.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/methods/text/draft_source.h"
#include "forerun/model.h"

#pragma GCC visibility push(default)
namespace forerun {

/// What a user needs to know of a drafter.
struct DrafterInfo {
  std::string name;       ///< before the colon
  std::string argument;   ///< after it, e.g. "PATH"; empty: the drafter has none
  std::string help;       ///< one line
  bool optional = false;  ///< the argument may be left out

  /// How it is named: "lookup", "dflash:FOLDER", "sam[:FOLDER]".
  std::string usage() const;
};

/// Makes a source for texts of `target`. `argument` is what follows the colon of the drafter's
/// name, or empty. May throw UsageError.
using MakeDraftSource =
    std::function<std::unique_ptr<DraftSource>(const Model& target, const std::string& argument)>;

/// Makes `Drafter::load("name:argument", ...)` a drafter with such a source. Every run gets a
/// source of its own.
/// @throws UsageError  the name is taken, empty, or holds a colon or a plus
void register_drafter(const DrafterInfo& info, MakeDraftSource make);

/// All drafters of texts, the built-in ones first.
std::vector<DrafterInfo> registered_drafters();

/// The parts of a sum: "dflash:a+b+lookup" has "dflash:a+b" and "lookup". A plus that no source
/// follows is a part of a path.
std::vector<std::string> drafter_parts(std::string_view name);

}  // namespace forerun
#pragma GCC visibility pop
