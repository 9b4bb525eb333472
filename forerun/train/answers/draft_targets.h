#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/options.h"

namespace forerun {

/// Of every token its place in a reduced vocabulary, -1 where it has none.
/// @param vocab   of the target
/// @param tokens  [n] int64, rising; undefined: all tokens
/// @return        [vocab]
std::vector<std::int64_t> places_of_tokens(std::int64_t vocab, const at::Tensor& tokens);

/// What of some numbers is different, rising, and which of these each is.
struct DistinctRows {
  at::Tensor rows;               ///< [different] int64
  std::vector<std::int64_t> of;  ///< [numbers]
};
/// Many drafts have one row of the target as teacher: its law is computed once.
DistinctRows distinct_rows(std::span<const std::int64_t> numbers);

/// `most` of the positions [first, last) of a document at random, all if there are fewer; rising.
std::vector<std::int64_t> random_positions(const AnswerDocument& document, std::uint64_t seed,
                                           std::int64_t first, std::int64_t last,
                                           std::int64_t most);

/// Weight of draft k of a block, counted from 0.
float draft_weight(std::int64_t k, double gamma);

/// The supervised drafts of a batch of blocks, a row each.
struct DraftSlots {
  std::vector<std::int64_t> block;     ///< which block of the batch
  std::vector<std::int64_t> draft;     ///< which draft of it, counted from 0
  std::vector<std::int64_t> label;     ///< id in the draft vocabulary
  std::vector<std::int64_t> previous;  ///< token before, of the target's vocabulary
  std::vector<std::int64_t> teacher;   ///< row of the target's states that predicts it
  std::vector<float> weight;
};

/// Drafts after an anchor: the tokens behind it, until the first that the draft vocabulary lacks:
/// no draft after that can be kept.
struct DraftLabels {
  std::span<const std::int64_t> drafted;  ///< places_of_tokens
  std::int64_t drafts = 0;                ///< of a block
  double gamma = 4.0;                     ///< draft_weight

  /// Adds the drafts of block number `block` of the batch.
  /// @param first_row  of the document, among the batch's rows
  /// @param anchor     position in the document
  void add(const AnswerDocument& document, std::int64_t first_row, std::int64_t block,
           std::int64_t anchor, DraftSlots& slots) const;
};

/// The leading right drafts of blocks.
/// @param draft   number k of each row's draft in its block; the rows of a block follow each other
///                and begin with k = 0, a block without rows keeps none; -1: no draft
/// @param best    [rows] int64: what is drafted; right if it is the label
/// @param blocks  their number
/// @return        "first", the share of right first drafts, and "tau", kept drafts plus 1 a block
std::vector<Figure> kept_drafts(std::span<const std::int64_t> draft, const at::Tensor& best,
                                std::span<const std::int64_t> label, std::int64_t blocks);

}  // namespace forerun
