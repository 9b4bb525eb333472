#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace forerun {

/// What a target pass over so many rows takes.
struct PassPoint {
  std::size_t rows = 0;
  double seconds = 0.0;
};

/// What the controller believes, and did.
struct DraftLengthReport {
  struct Rate {
    std::size_t confidence_bin = 0;
    std::size_t position = 0;
    double probability = 0.0;  ///< kept, if examined
    double examined = 0.0;     ///< recent examinations behind it (older ones count less)
  };
  std::vector<PassPoint> pass;
  double draft_fixed_seconds = 0.0;
  double draft_token_seconds = 0.0;
  double rest_seconds = 0.0;
  std::vector<Rate> acceptance;  ///< of what was examined lately, by confidence_bin, then position
  std::vector<std::uint32_t> lengths;  ///< last plan, by sequence
  double planned_per_second = 0.0;     ///< outputs expected of it
  double plain_per_second = 0.0;       ///< outputs expected without drafts
  std::vector<std::uint64_t> chosen;   ///< by length: how often a sequence got it
  std::uint64_t probes = 0;            ///< rounds that drafted only to learn
  std::uint64_t plain_checks = 0;      ///< rounds that did not draft, only to learn
};

}  // namespace forerun
