#include "forerun/methods/dflash/dflash_drafter.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "forerun/core/rng_key.h"
#include "forerun/methods/draft_mode.h"

namespace forerun {

DraftPicker DFlashDrafter::picker_for(const DFlashPasses& network) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < network.config().draft_vocab; ++i) {
    tokens.push_back(network.token(i));
  }
  return {network.config().vocab, std::move(tokens)};
}

std::vector<SequencePlan> DFlashDrafter::plan(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceId id = sequences[i]->id();
    plans.push_back({.id = id,
                     .limit = texts_.known(id) ? std::min(most[i], block()) : 0,
                     .unread = texts_.unread(id)});
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
  picker_.begin_round();
  const DFlashTexts::Blocks blocks = texts_.forward(wanted);
  for (std::size_t j = 0; j < who.size(); ++j) {
    if (blocks.first[j] < 0) continue;
    TokenDraft& draft = drafts[who[j]];
    try {
      fill(*sequences[who[j]], draft, blocks.rows, blocks.first[j], wanted[j].drafts);
    } catch (const std::exception&) {  // scores that are not numbers: the target judges the text
      DraftPicker::end(draft);
    }
  }
  return drafts;
}

void DFlashDrafter::fill(const TokenSequence& sequence, TokenDraft& draft,
                         const DFlashPasses::Blocks& rows, std::int64_t row, std::int64_t count) {
  const at::Tensor& logits = rows.logits;
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  Token previous = sequence.tokens().back();
  for (std::int64_t k = 0; k < count; ++k) {
    const std::span<float> own(logits.data_ptr<float>() + static_cast<std::size_t>(row + k) * vocab,
                               vocab);
    texts_.network().condition(previous, rows.state(row + k), own);
    const auto position = sequence.tokens().size() + static_cast<std::size_t>(k);
    previous = picker_.pick(sequence, own, sequence.key_at(position), draft);
  }
}

}  // namespace forerun
