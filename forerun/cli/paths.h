#pragma once

#include <istream>
#include <string>
#include <vector>

namespace forerun::cli {

/// The path of a model that is named by its path, or as in Hugging Face's cache on this machine.
/// @throws UsageError  the name stands for several models
std::string local_model(const std::string& name);

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
/// What a drafter may read by its name, "free:FOLDER" or "dflash:PATH:OPTION=VALUE+sam:FOLDER";
/// also parts of the name that are no path.
std::vector<std::string> paths_of_drafter(const std::string& name);

/// The content of a file that a flag names.
/// @param what         "prompts file", for the message
/// @throws UsageError  a folder, more than 256 MiB, or nothing that can be read
std::string read_input(const std::string& path, const std::string& what);
/// The same of a stream that is open.
std::string read_input(std::istream& in, const std::string& path, const std::string& what);

}  // namespace forerun::cli
