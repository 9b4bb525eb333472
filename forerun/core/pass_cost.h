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
/// (knots), linear between those seen, nondecreasing. Above the last one seen the last slope goes
/// on, at least 3% of a one-row pass a row; that slope is also all it assumes before it has seen
/// two.
///
/// A pass moves the knots beside it by part of its OutlierClip. Knots not seen lately follow those
/// that are, in proportion: a longer context, or another process on a core, changes them all. How
/// far one has moved on such drift is told, so that somebody can go and look. What no pass
/// confirms is forgotten: a measurement made at load after 64 passes, a pass after 512.
class PassCost {
 public:
  using Point = PassPoint;

  PassCost() = default;
  /// Starts from passes measured before, in any order; those without rows or time are ignored.
  explicit PassCost(std::span<const Point> measured);

  bool known() const noexcept { return top_ > 0; }  ///< has it seen any pass
  /// Expected seconds of a pass; 0 while none is known.
  double seconds(std::size_t rows) const noexcept;
  /// Rows up to which a pass may be tried: twice the largest seen, so that a curve not yet seen is
  /// entered in steps.
  std::size_t explored() const noexcept { return 2 * top_; }
  /// How far the cost there was moved since a pass was seen there: |log ratio|.
  double drift(std::size_t rows) const noexcept;
  /// How many passes the cost there rests on, lately, 16 at most.
  double seen(std::size_t rows) const noexcept;
  /// Takes in one pass. No rows, or seconds not finite and positive: ignored.
  void observe(std::size_t rows, double seconds) noexcept;
  /// The knots seen, by rising rows.
  std::vector<Point> curve() const;

 private:
  static constexpr std::array<std::size_t, 20> kRows = {
      1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
  struct Knot {
    double seconds = 0.0;
    double seen = 0.0;      ///< passes seen here, 16 at most; 0: nothing is known
    double followed = 0.0;  ///< sum of the log moves since it was last seen
    std::uint32_t age = 0;  ///< passes since it was last seen
    bool loaded = false;    ///< measured at load, not confirmed yet
  };
  struct Share {  // of a pass in the knots around it
    std::size_t low = 0, high = 0;
    double high_part = 0.0;
  };

  static Share share(std::size_t rows) noexcept;
  double move_knot(std::size_t knot, double part, double expected, double excess) noexcept;
  void follow(const Share& at, double carried) noexcept;
  void order(std::size_t knot) noexcept;
  void find_top() noexcept;

  std::array<Knot, kRows.size()> knots_{};
  OutlierClip outlier_clip_;
  std::size_t top_ = 0;  ///< rows of the largest knot seen, 0 if none
};

}  // namespace forerun
