#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>

#include "forerun/core/draft_length.h"
#include "forerun/methods/text/companion_rows.h"

namespace forerun {

/// What a pass offers to a drafter that wants rows of its own in it.
struct RowOffer {
  /// Outputs that so many rows more than the pass has by now have to be worth; infinite if the text
  /// cannot afford them.
  std::function<double(std::size_t rows)> price;
  std::span<const double> reach;  ///< [draft.size()]: P(the drafted token is an output)
};

/// The offer of a planned pass. Arguments outlive it.
/// @param rows     those of the text so far,
/// @param planned  of which the controller knows so many
inline RowOffer row_offer(const DraftLength& control, SequenceId id, const CompanionRows& rows,
                          const std::size_t& planned, std::span<const double> reach) {
  return {.price =
              [&control, id, &rows, &planned](std::size_t more) {
                const std::size_t before = rows.rows() - planned, own = before + more;
                if (!control.covers(id, own)) return std::numeric_limits<double>::infinity();
                return control.price(own) - (before > 0 ? control.price(before) : 0.0);
              },
          .reach = reach};
}

}  // namespace forerun
