#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::testing {

inline bool has(const std::string& page, std::string_view part) {
  return page.find(part) != std::string::npos;
}

// The first tag that closes nothing or is never closed, or "": a page is XML but for its first
// line.
inline std::string unbalanced(std::string_view page) {
  std::vector<std::string_view> open;
  page.remove_prefix(page.find('>') + 1);  // <!DOCTYPE html>
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == page.npos) return "cut off";
    const std::string_view tag = page.substr(at + 1, end - at - 1);
    const std::string_view name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.empty() || tag.find('<') != tag.npos) return std::string(tag);
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return std::string(tag);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : std::string(open.back());
}

}  // namespace forerun::testing
