#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/labelled_images.h"

namespace forerun::internal {

/// What a folder holds, in the order of the names; those that start with a dot are left out.
struct Listing {
  std::vector<std::string> folders, files;
};

/// Error: the path, and why it cannot be listed.
Result<Listing> list_folder(const std::filesystem::path& folder);

/// The layout CLASS/*.png of load_labelled_images.
Result<LabelledImages> load_class_folders(const std::filesystem::path& folder,
                                          const std::vector<std::string>& classes);

}  // namespace forerun::internal
