#include "forerun/methods/draft_mode.h"

#include "forerun/core/shared_noise.h"

namespace forerun {

DraftMode draft_mode(Rule rule) noexcept {
  switch (rule) {
    case Rule::kMaximal:
    case Rule::kBlock:
      return DraftMode::kSample;
    case Rule::kSharedNoise:
      return DraftMode::kSharedNoise;
    case Rule::kMatch:
    case Rule::kTypical:
    case Rule::kRatioOnSearch:
    case Rule::kStepwise:
    case Rule::kPath:
    case Rule::kPaper:
    case Rule::kCode:
      return DraftMode::kGreedy;
  }
  return DraftMode::kSample;
}

Origin draft_origin(const TokenSequence& sequence) noexcept {
  const bool chosen =
      sequence.sampling().greedy() || draft_mode(sequence.rule()) == DraftMode::kGreedy;
  return chosen ? Origin::kSearched : Origin::kSampled;
}

bool noise_decides(const TokenSequence& sequence) noexcept {
  return sequence.rule() == Rule::kSharedNoise && !sequence.sampling().greedy();
}

bool needs_laws(const TokenSequence& sequence) noexcept {
  if (draft_origin(sequence) == Origin::kSampled) return true;
  // The published ratio reads the laws of chosen drafts as well.
  return sequence.rule() == Rule::kRatioOnSearch && !sequence.sampling().greedy();
}

Token drafted_token(const Categorical& law, const TokenSequence& sequence, const RngKey& key) {
  if (draft_origin(sequence) == Origin::kSearched) return law.argmax();
  if (draft_mode(sequence.rule()) == DraftMode::kSharedNoise)
    return sample_shared_noise(law, key).token;
  return law.sample(key.uniform(Purpose::kDraft));
}

}  // namespace forerun
