#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/core/statistics.h"
#include "forerun/engine.h"

namespace forerun::serve {

/// Seconds, in buckets of a Prometheus histogram.
class Histogram {
 public:
  static constexpr std::array<double, 18> kEdges = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03,
                                                    0.05,  0.075, 0.1,   0.15, 0.25, 0.5,
                                                    1.0,   2.5,   5.0,   10.0, 30.0, 120.0};
  void observe(double seconds, std::uint64_t times = 1);
  /// The lines of the metric, with its HELP and TYPE.
  std::string text(std::string_view name, std::string_view labels, std::string_view help) const;
  std::uint64_t count() const noexcept { return count_; }
  double sum() const noexcept { return sum_; }

 private:
  std::array<std::uint64_t, kEdges.size()> at_most_{};
  std::uint64_t count_ = 0;
  double sum_ = 0.0;
};

/// What the server has counted. Belongs to the I/O thread.
class Metrics {
 public:
  /// The present state, which is not counted.
  struct Now {
    EngineMemory memory;
    std::size_t waiting = 0;  ///< texts that do not run yet
    std::size_t connections = 0;
    bool draining = false;
  };

  void answered(const std::string& path, unsigned status);
  /// A round of a text.
  /// @param seconds  since its last one, or its arrival for the first
  void round(const std::string& drafter, const RoundTrace& trace, double seconds, bool first);
  void finished(const std::string& drafter, const TextResult& text, std::size_t prompt_tokens);
  void image_finished(const RunStatistics& image);
  void request_took(double seconds) { request_seconds_.observe(seconds); }
  /// Mean of the requests so far; 0: none.
  double mean_request_seconds() const;

  /// Prometheus' text format 0.0.4.
  std::string text(const Now& now, const std::string& model) const;

 private:
  struct Drafting {
    std::uint64_t rounds = 0, with_drafts = 0, drafted = 0, kept = 0;
    std::vector<std::uint64_t> kept_at, examined_at;  // by position
  };
  struct Page;
  void add_ours(Page& page, const Now& now) const;
  void add_drafting(Page& page) const;
  void add_aliases(Page& page, const Now& now, const std::string& model) const;

  std::map<std::pair<std::string, unsigned>, std::uint64_t> answers_;
  std::map<std::string, Drafting> drafting_;  // by drafter
  std::uint64_t prompt_tokens_ = 0, cached_tokens_ = 0, tokens_ = 0, passes_ = 0;
  std::uint64_t texts_ = 0, images_ = 0, image_rounds_ = 0, image_steps_ = 0;
  double prompt_seconds_ = 0.0, seconds_ = 0.0;
  Histogram first_token_, between_tokens_, request_seconds_;
};

}  // namespace forerun::serve
