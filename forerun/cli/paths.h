#pragma once

#include <string>
#include <vector>

namespace forerun::cli {

/// @throws UsageError  nothing is there
void expect_path(const std::string& path);

/// A file that a command is asked to write, and the flag that names it.
struct Output {
  std::string flag, path;
};
/// Called before the work: what is written must not replace what is read.
/// @param inputs  files, and folders, of which every file that a model may be made of counts;
///                empty ones and those that are not there are left out
/// @throws UsageError  an output that is an input or another output
void expect_apart(const std::vector<Output>& outputs, const std::vector<std::string>& inputs);
/// The paths within the name of a drafter: "free:FOLDER", "dflash:PATH+sam:FOLDER+lookup".
std::vector<std::string> paths_of_drafter(const std::string& name);

/// The content of a file that a flag names.
/// @param what         "prompts file", for the message
/// @throws UsageError  a folder, more than 256 MiB, or nothing that can be read
std::string read_input(const std::string& path, const std::string& what);

}  // namespace forerun::cli
