#include "forerun/methods/text/verified_tokens.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <utility>

#include "forerun/core/apply_sampling.h"

namespace forerun {
namespace {

// What `step` drafts of a text, or those on the way to a row of its tree, change beside the text.
ChangedLogits changed_at(const VerifiedRows& rows, std::size_t step) {
  std::vector<Token> path;
  for (auto i = static_cast<std::int32_t>(step) - 1; i >= 0;) {
    path.push_back(rows.draft->tokens[static_cast<std::size_t>(i)]);
    i = rows.draft->parent(static_cast<std::size_t>(i));
  }
  ChangedLogits changed = rows.changed;
  for (auto token = path.rbegin(); token != path.rend(); ++token) changed.push(*token);
  return changed;
}

}  // namespace

std::span<float> row_of(const at::Tensor& logits, std::int64_t row) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  return {logits.data_ptr<float>() + static_cast<std::size_t>(row) * vocab, vocab};
}

VerifiedTokens::VerifiedTokens(at::Tensor logits, std::vector<VerifiedRows> sequences)
    : logits_(std::move(logits)), sequences_(std::move(sequences)) {
  for (const VerifiedRows& s : sequences_) rows_.emplace_back(static_cast<std::size_t>(s.count));
}

const TokenLaw& VerifiedTokens::at(std::size_t sequence, std::size_t step) const {
  const VerifiedRows& of = sequences_[sequence];
  Row& row = rows_[sequence][step];
  if (!row.law) {
    const std::span<float> logits = row_of(logits_, of.first + static_cast<std::int64_t>(step));
    const std::int32_t mixed = of.mix.companions.empty() ? -1 : of.mix.companions[step];
    if (mixed >= 0) {
      mix_logits_(logits, companion(sequence, static_cast<std::size_t>(mixed)), of.mix.own);
    }
    if (of.keep_raw) row.raw.assign(logits.begin(), logits.end());
    if (!of.changed.none() && !changed_at(of, step).apply_(logits)) {
      throw NoTokenAllowed(
          "the grammar allows no token here: no text of its schema or expression "
          "that begins like this one is made of the model's tokens");
    }
    row.law = apply_sampling_(logits, of.sampling);
  }
  return *row.law;
}

std::span<const float> VerifiedTokens::logits(std::size_t sequence, std::size_t step) const {
  return row_of(logits_, sequences_[sequence].first + static_cast<std::int64_t>(step));
}

std::span<const float> VerifiedTokens::companion(std::size_t sequence, std::size_t i) const {
  const VerifiedRows& of = sequences_[sequence];
  return row_of(logits_, of.first + of.count + static_cast<std::int64_t>(i));
}

std::span<const float> VerifiedTokens::raw(std::size_t sequence, std::size_t step) const {
  return rows_[sequence][step].raw;
}

}  // namespace forerun
