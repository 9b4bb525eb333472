#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "forerun/base/result.h"

struct pcre2_real_code_8;

namespace forerun::internal {

/// Bytes [begin, end) of a text.
struct Range {
  std::size_t begin, end;
};

/// A compiled pattern; copies share it, and it may be used from many threads at once.
class Regex {
 public:
  /// @param pattern  PCRE2 syntax, UTF-8, Unicode properties on
  /// Error: syntax, or a pattern that can match nothing at all
  static Result<Regex> compile(std::string_view pattern);

  /// All matches from left to right, none empty, none overlapping.
  /// @param text  well-formed UTF-8
  /// @throws std::runtime_error  the match needed more steps than 1e6 + 64 a byte
  std::vector<Range> matches(std::string_view text) const;

 private:
  explicit Regex(std::shared_ptr<const pcre2_real_code_8> code) : code_(std::move(code)) {}

  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace forerun::internal
