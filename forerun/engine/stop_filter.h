#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

/// Text on its way out: cuts at stop strings, and holds back what might become one.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stop);

  /// Takes in text and returns what is certain to stay.
  std::string push(std::string_view text);
  /// What was held back, when no more text comes.
  std::string flush();
  bool stopped() const noexcept { return stopped_; }

 private:
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace forerun
