#include "forerun/methods/dflash/dflash_drafter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

}  // namespace

std::vector<SequencePlan> DFlashDrafter::plan(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceId id = sequences[i]->id();
    plans.push_back({.id = id,
                     .limit = texts_.known(id) ? std::min(most[i], block()) : 0,
                     .unread = texts_.unread(id),
                     .remaining = sequences[i]->remaining()});
  }
  return plans;
}

std::vector<TokenDraft> DFlashDrafter::propose(std::span<TokenSequence* const> sequences,
                                               std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(sequences.size());
  std::vector<DFlashTexts::Wanted> wanted;
  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    drafts[i].origin = draft_origin(*sequences[i]);
    if (lengths[i] == 0 || !texts_.known(sequences[i]->id())) continue;
    wanted.push_back({.sequence = sequences[i],
                      .drafts = static_cast<std::int64_t>(std::min(lengths[i], block()))});
    who.push_back(i);
  }
  rows_used_ = 0;
  const DFlashTexts::Blocks blocks = texts_.forward(wanted);
  for (std::size_t j = 0; j < who.size(); ++j) {
    if (blocks.first[j] < 0) continue;
    TokenDraft& draft = drafts[who[j]];
    try {
      fill(*sequences[who[j]], draft, blocks.rows.logits, blocks.first[j], wanted[j].drafts);
    } catch (const std::exception&) {  // scores that are not numbers: the target judges the text
      draft.tokens.clear();
      draft.laws.clear();
    }
  }
  return drafts;
}

void DFlashDrafter::fill(const TokenSequence& sequence, TokenDraft& draft, const at::Tensor& logits,
                         std::int64_t row, std::int64_t count) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  Token previous = sequence.tokens().back();
  for (std::int64_t k = 0; k < count; ++k) {
    const std::span<float> own(logits.data_ptr<float>() + static_cast<std::size_t>(row + k) * vocab,
                               vocab);
    if (texts_.network().has_markov()) texts_.network().add_markov(previous, own);
    const auto position = sequence.tokens().size() + static_cast<std::size_t>(k);
    previous = pick(sequence, own, sequence.key_at(position), draft);
    draft.tokens.push_back(previous);
  }
}

Token DFlashDrafter::pick(const TokenSequence& sequence, std::span<float> logits, const RngKey& key,
                          TokenDraft& draft) {
  if (needs_laws(sequence)) return pick_scored(sequence, logits, key, draft);
  return texts_.network().token(argmax(logits));
}

// The law over the target's vocabulary: zero outside the draft vocabulary.
Token DFlashDrafter::pick_scored(const TokenSequence& sequence, std::span<float> logits,
                                 const RngKey& key, TokenDraft& draft) {
  if (rows_used_ == rows_.size()) rows_.emplace_back();
  std::vector<float>& row = rows_[rows_used_++];
  row.assign(static_cast<std::size_t>(texts_.network().config().vocab), kForbidden);
  // The short row is transformed first: tokens forbidden there stay forbidden.
  static_cast<void>(apply_sampling_(logits, sequence.sampling()));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    row[static_cast<std::size_t>(texts_.network().token(static_cast<std::int64_t>(i)))] = logits[i];
  }
  const Categorical q(row);
  draft.laws.push_back(q);
  return drafted_token(q, sequence, key);
}

}  // namespace forerun
