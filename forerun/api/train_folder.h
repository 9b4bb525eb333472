#pragma once

#include <filesystem>
#include <string_view>

namespace forerun {

/// A result is written over what an earlier run of the same method left, and its log is there to
/// tell; never over another model, such as the target or one that came without its run, nor over a
/// log.jsonl or curves.html of something else.
/// @param method  as `forerun train` calls it, which is how a run's objective begins
/// @param init    the folder that the run starts from; empty: none
/// @throws UsageError  the folder holds such a file and no checkpoint, answers of forerun distill,
/// or is `init`, which would not be there any more when the run goes on
void expect_own_folder(const std::filesystem::path& out, std::string_view method,
                       const std::filesystem::path& init = {});

}  // namespace forerun
