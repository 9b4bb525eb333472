#pragma once

#include <string_view>

namespace forerun::serve {

/// A file of the page, which is built into the program.
struct PageFile {
  std::string_view path, type, content;
};

/// The file at a path of the server; nullptr: none.
const PageFile* page_file(std::string_view path);

}  // namespace forerun::serve
