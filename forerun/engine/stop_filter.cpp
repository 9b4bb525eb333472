#include "forerun/engine/stop_filter.h"

#include <algorithm>
#include <utility>

namespace forerun {

StopFilter::StopFilter(std::vector<std::string> stop) : stop_(std::move(stop)) {
  std::erase_if(stop_, [](const std::string& s) { return s.empty(); });
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  // The one that is complete first, whatever else has arrived with it.
  std::size_t cut = std::string::npos, end = std::string::npos;
  for (const std::string& s : stop_) {
    const std::size_t at = held_.find(s);
    if (at == std::string::npos) continue;
    if (at + s.size() > end || (at + s.size() == end && at > cut)) continue;
    cut = at;
    end = at + s.size();
  }
  if (cut != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, cut);
  }
  std::size_t keep = 0;
  for (const std::string& s : stop_) {
    std::size_t n = std::min(s.size() - 1, held_.size());
    while (n > keep && !held_.ends_with(std::string_view(s).substr(0, n))) --n;
    keep = std::max(keep, n);
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopFilter::flush() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace forerun
