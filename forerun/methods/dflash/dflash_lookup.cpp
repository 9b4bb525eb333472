#include "forerun/methods/dflash/dflash_lookup.h"

#include <algorithm>

namespace forerun {

double DFlashLookupDrafter::promise(std::size_t grade, std::size_t drafts) const {
  auto along = acceptance_.along(grade);
  double sum = 0.0, survival = 1.0;
  for (std::size_t k = 0; k < drafts; ++k) sum += survival *= along.next();
  return sum;
}

std::vector<std::size_t> DFlashLookupDrafter::foresee(std::span<TokenLane* const> lanes,
                                                      std::span<std::size_t> lengths) {
  found_ = lookup_.propose(lanes, lengths);
  grades_.assign(lanes.size(), 0);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool ready = block_.ready(*lanes[i]);
    const std::size_t block = ready ? std::min(lengths[i], block_.most()) : 0;
    const std::size_t grade = std::min<std::size_t>(kGrades - 1, found_[i].grade + 1U);
    const bool looked_up =
        found_[i].size() > 0 &&
        promise(grade, std::min(lengths[i], found_[i].size())) >= promise(0, block);
    grades_[i] = looked_up ? grade : 0;
    lengths[i] = looked_up ? std::min(lengths[i], found_[i].size()) : block;
  }
  return grades_;
}

std::vector<TokenDraft> DFlashLookupDrafter::propose(std::span<TokenLane* const> lanes,
                                                     std::span<const std::size_t> lengths) {
  std::vector<std::size_t> blocks(lengths.begin(), lengths.end());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (grades_[i] > 0) blocks[i] = 0;
  }
  std::vector<TokenDraft> drafts = block_.propose(lanes, blocks);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (grades_[i] == 0) continue;
    drafts[i] = std::move(found_[i]);
    drafts[i].grade = static_cast<std::uint8_t>(grades_[i]);
    cut(drafts[i], std::min(lengths[i], drafts[i].size()));
  }
  return drafts;
}

void DFlashLookupDrafter::learn(std::span<const TokenDraft> drafts,
                                std::span<const Outcome> outcomes) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    for (std::size_t k = 0; k < outcomes[i].examined; ++k) {
      acceptance_.observe(drafts[i].grade, k, k < outcomes[i].accepted);
    }
  }
  acceptance_.next_round();
}

}  // namespace forerun
