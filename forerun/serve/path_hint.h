#pragma once

#include <string_view>

namespace forerun::serve {

/// What to do in place of asking for a path of other servers that this one does not have; "":
/// nothing is known.
std::string_view path_hint(std::string_view path);

}  // namespace forerun::serve
