#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/draft_length_report.h"
#include "forerun/core/outlier_clip.h"

namespace forerun {

/// What a target pass over M rows costs on this machine, now: seconds at fixed numbers of rows
/// (knots), linear between measured knots, nondecreasing. Above the last measured knot the last
/// slope continues, at least 3% of a one-row pass a row; this minimum is also the slope before two
/// knots are measured.
///
/// A pass moves its neighbouring knots by part of its clipped excess (OutlierClip). Knots not seen
/// lately follow those that are, in proportion: a longer context, or another process on a core,
/// changes them all. This drift is reported, so that the caller can measure again. A knot without a
/// pass among the last 512 expires.
///
/// A caller that avoids what it takes for dear would never measure it again. So what a knot costs
/// above the minimal slope from the knot below is believed for 12 passes for each pass that it
/// rests on and two more, and then halves every as many.
class PassCost {
 public:
  using Point = PassPoint;

  bool known() const noexcept { return top_ > 0; }  ///< has it measured a pass
  /// Expected seconds of a pass; 0 while none is known.
  double seconds(std::size_t rows) const noexcept { return on_curve(rows, measured_); }
  /// What a plan counts with: less where nothing was measured for long.
  double believed_seconds(std::size_t rows) const noexcept { return on_curve(rows, believed_); }
  /// Largest number of rows to try: twice the largest measured, so that an unknown curve is
  /// explored in steps.
  std::size_t explored() const noexcept { return 2 * top_; }
  /// Drift of the cost there since the last pass measured there: |log ratio|.
  double drift(std::size_t rows) const noexcept;
  /// How many recent passes the cost there rests on, at most 16.
  double seen(std::size_t rows) const noexcept;
  /// Records one pass. Ignores no rows, or seconds that are not finite and positive.
  void observe(std::size_t rows, double seconds) noexcept;
  /// The measured knots, by rising rows.
  std::vector<Point> curve() const;

 private:
  static constexpr std::array<std::size_t, 20> kRows = {
      1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
  struct Knot {
    double seconds = 0.0;
    double seen = 0.0;      ///< passes measured here, at most 16; 0: unknown
    double followed = 0.0;  ///< sum of the log moves since the last measurement
    std::uint32_t age = 0;  ///< passes since the last measurement
  };
  struct Share {  // of a pass in the knots around it
    std::size_t low = 0, high = 0;
    double high_part = 0.0;
  };

  using Seconds = std::array<double, kRows.size()>;  // of knots; 0: unknown

  static double on_curve(std::size_t rows, const Seconds& knots) noexcept;
  void take_costs() noexcept;
  static Share share(std::size_t rows) noexcept;
  double move_knot(std::size_t knot, double part, double expected, double excess) noexcept;
  void follow(const Share& at, double carried) noexcept;
  void order(std::size_t knot) noexcept;
  void find_top() noexcept;

  std::array<Knot, kRows.size()> knots_{};
  Seconds measured_{}, believed_{};
  OutlierClip outlier_clip_;
  std::size_t top_ = 0;  ///< rows of the largest knot seen, 0 if none
};

}  // namespace forerun
