#pragma once

#include <filesystem>

namespace forerun {

/// A result is written over what an earlier run left, but never over a model of other making, such
/// as the target.
/// @throws UsageError  the folder holds such a model
void expect_own_folder(const std::filesystem::path& out);

}  // namespace forerun
