#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun::cli {

/// How one text came about, for a page.
struct TextTracePage {
  struct Node {
    std::string text;
    std::int32_t parent = -1;  ///< an earlier node of the round, -1 the text so far
    bool kept = false;
  };
  struct Round {
    std::vector<Node> drafts;
    std::string own;  ///< the target's own output; empty: the text ended at a draft
    std::size_t outputs = 0;
    double drafter_ms = 0.0, target_ms = 0.0;
  };
  std::string title, command, version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< shown above, in this order
  std::vector<Round> rounds;
};

/// The rounds as one HTML page that needs nothing else; nothing is fetched. The page holds the
/// fields above, a draft as [text, parent, kept].
std::string render_text_trace(const TextTracePage& page);

}  // namespace forerun::cli
