#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace forerun::cli {

/// How a text came about in the passes of a diffusion language model, for a page.
struct DiffusionTracePage {
  struct Token {
    std::size_t place = 0;
    std::string text;
  };
  std::string title, command, version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< shown above, in this order
  std::size_t places = 0;
  std::vector<std::vector<Token>> steps;  ///< what each pass filled in
};

/// The text as one HTML page on which its tokens appear pass by pass; nothing is fetched. The page
/// holds the fields above, a token as [place, text].
std::string render_diffusion_trace(const DiffusionTracePage& page);

}  // namespace forerun::cli
