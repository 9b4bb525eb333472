#include "forerun/methods/draft_model/draft_model_source.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "forerun/methods/draft_budget.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {

void DraftModelSource::query(std::span<const TokenSequence* const> sequences) {
  runs_.clear();
  std::vector<const TokenSequence*> who;
  for (const TokenSequence* sequence : sequences) {
    texts_.settle(*sequence);  // drafts of a round that came to nothing
    if (texts_.catch_up(*sequence)) who.push_back(sequence);
  }
  for (std::size_t k = 0; k < steps_; ++k) {
    std::erase_if(who, [&](const TokenSequence* s) {
      return k >= std::min(texts_.room(*s), draft_budget(*s, steps_));
    });
    if (who.empty()) return;
    std::vector<DraftModelTexts::Wanted> wanted;
    wanted.reserve(who.size());
    for (const TokenSequence* s : who) wanted.push_back({s, runs_[s->id()].tokens});
    const at::Tensor logits = texts_.next(wanted);
    for (std::size_t i = 0; i < who.size(); ++i) {
      const std::span<float> row = row_of(logits, static_cast<std::int64_t>(i));
      Run& run = runs_[who[i]->id()];
      SlotCandidates slot = slot_candidates(row, temperature_of(*who[i]), bounds_of(row));
      try {
        run.tokens.push_back(take_token_(row, *who[i], run.tokens).token);
        run.slots.push_back(std::move(slot));
      } catch (const std::exception&) {  // scores that are not numbers: its chain ends
        who[i] = nullptr;
      }
    }
    std::erase(who, nullptr);
  }
}

void DraftModelSource::observe(const VerifiedDraft& verified) {
  texts_.settle(verified.sequence);
  runs_.erase(verified.sequence.id());
}

std::size_t DraftModelSource::slots_of(const TokenSequence& sequence) {
  const auto run = runs_.find(sequence.id());
  growing_ = run == runs_.end() ? nullptr : &run->second;
  return growing_ == nullptr ? 0 : growing_->slots.size();
}

// Its laws are those after its own chain.
bool DraftModelSource::knows(const Node& node) const {
  const std::vector<Token> path = path_to(node);
  return std::equal(path.begin(), path.end(), growing_->tokens.begin());
}

}  // namespace forerun
