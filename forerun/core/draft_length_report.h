#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace forerun {

/// Time of a target pass over this many rows.
struct PassPoint {
  std::size_t rows = 0;
  double seconds = 0.0;
};

/// Estimates and counters of the controller.
struct DraftLengthReport {
  struct Rate {
    std::size_t confidence_bin = 0;
    std::size_t position = 0;
    double probability = 0.0;  ///< kept, if examined
    double examined = 0.0;     ///< recent examinations it rests on (older ones count less)
  };
  std::vector<PassPoint> pass;
  double draft_fixed_seconds = 0.0;
  double draft_token_seconds = 0.0;
  double rest_seconds = 0.0;
  std::vector<Rate> acceptance;        ///< of recent examinations, by confidence_bin, then position
  std::vector<std::uint32_t> lengths;  ///< last plan, by sequence
  double planned_per_second = 0.0;     ///< expected outputs
  double plain_per_second = 0.0;       ///< expected outputs without drafts
  double credit = 0.0;                 ///< outputs whose time a text may lose to drafts
  std::vector<std::uint64_t> chosen;   ///< by length: how many sequences got it
  std::uint64_t probes = 0;            ///< rounds that drafted only to measure
  std::uint64_t plain_checks = 0;      ///< rounds that did not draft, only to measure
};

}  // namespace forerun
