#include "forerun/methods/draft_mode.h"

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

}  // namespace forerun
