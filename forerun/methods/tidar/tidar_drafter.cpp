#include "forerun/methods/tidar/tidar_drafter.h"

#include <algorithm>
#include <numeric>

#include "forerun/core/rng_key.h"
#include "forerun/methods/draft_mode.h"

namespace forerun {

namespace {

std::vector<Token> all_tokens(const GatedLora& lora) {
  std::vector<Token> out(static_cast<std::size_t>(lora.config.vocab));
  std::iota(out.begin(), out.end(), Token{0});
  return out;
}

}  // namespace

TidarDrafter::TidarDrafter(std::shared_ptr<const GatedLora> lora, TidarForm form,
                           const TidarMix& mix)
    : blocks_(lora, form, TidarBlocks::Kept::kRows, mix),
      picker_(lora->config.vocab, all_tokens(*lora)) {}

std::vector<SequencePlan> TidarDrafter::plan(std::span<TokenSequence* const> sequences,
                                             std::span<const std::size_t> most,
                                             const DraftLength&) {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceId id = sequences[i]->id();
    plans.push_back(
        {.id = id, .limit = std::min(most[i], blocks_.drafts(id)), .companions = expected_[id]});
  }
  return plans;
}

std::vector<TokenDraft> TidarDrafter::propose(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(sequences.size());
  picker_.begin_round();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    drafts[i].origin = draft_origin(*sequences[i]);
    try {
      fill(*sequences[i], lengths[i], drafts[i]);
    } catch (const std::exception&) {  // scores that are not numbers: the target judges the text
      DraftPicker::end(drafts[i]);
    }
  }
  return drafts;
}

HitRates::Cell TidarDrafter::cell(std::size_t position) noexcept {
  return {.cell = static_cast<std::uint16_t>(std::min(position, kPositions - 1)), .group = 0};
}

void TidarDrafter::fill(const TokenSequence& sequence, std::size_t length, TokenDraft& draft) {
  Token previous = sequence.tokens().back();
  for (std::size_t i = 0; i < length; ++i) {
    const std::span<const float> slot = blocks_.logits(sequence.id(), i);
    row_.assign(slot.begin(), slot.end());
    if (blocks_.markov().defined()) blocks_.markov().add(previous, row_);
    previous = picker_.pick(sequence, row_, sequence.key_at(sequence.tokens().size() + i), draft);
  }
}

void TidarDrafter::add_companions(std::span<TokenSequence* const> sequences,
                                  std::span<const TokenDraft> drafts, DraftLength& control) {
  companions_.assign(sequences.size(), {});
  if (control.measuring() && !blocks_.mixes()) return;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceId id = sequences[i]->id();
    std::vector<double> reach;
    for (std::size_t j = 0; j < drafts[i].size(); ++j) {
      // A fixed length promises the text: what other texts taught may not choose the rows.
      const double kept = control.adaptive() ? kept_.probability(cell(j)) : kPriorKept;
      reach.push_back((j == 0 ? 1.0 : reach.back()) * kept);
    }
    blocks_.spent(id, control.checking_price(drafts[i].size()));
    std::size_t planned = 0;
    const RowOffer offer = row_offer(control, id, companions_[i], planned, reach);
    blocks_.companions(*sequences[i], drafts[i], offer, companions_[i]);
    control.add_rows(companions_[i].rows());
    expected_[id] = companions_[i].rows();
  }
}

void TidarDrafter::observe(std::span<TokenSequence* const> sequences,
                           std::span<const TokenDraft> drafts, const VerifiedTokens& verified,
                           std::span<const Outcome> outcomes) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const TokenSequence& sequence = *sequences[i];
    for (std::size_t j = 0; j < outcomes[i].examined; ++j) {
      const bool kept = j < outcomes[i].accepted;
      kept_.observe(cell(j), kept);
      if (kept) blocks_.earned(sequence.id());
    }
    blocks_.observe(
        {.sequence = sequence,
         .text = sequence.tokens().first(sequence.tokens().size() - outcomes[i].emitted),
         .draft = drafts[i],
         .outcome = outcomes[i],
         .rows = verified,
         .index = i,
         .companions_ran = verified.companion_rows(i) > 0});
    if (sequence.done()) forget(sequence.id());
  }
}

}  // namespace forerun
