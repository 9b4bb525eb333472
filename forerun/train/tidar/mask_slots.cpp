#include "forerun/train/tidar/mask_slots.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "forerun/train/answers/draft_targets.h"

namespace forerun {

void MaskSlots::add(const AnswerDocument& d, const GatedLoraConfig& c, std::int64_t block,
                    std::int64_t start, std::int64_t text_row, double gamma) {
  for (std::int64_t s = c.first_slot; s < c.block && start + s < d.size(); ++s) {
    const auto at = static_cast<std::size_t>(start + s);
    row.push_back(block * c.slots() + s - c.first_slot);
    draft.push_back(s - 1);
    label.push_back(d.tokens[at]);
    previous.push_back(d.tokens[at - 1]);
    teacher.push_back(text_row + start + s - 1);
    weight.push_back(draft_weight(std::max<std::int64_t>(s - 1, 0), gamma));
  }
}

std::vector<std::int64_t> block_starts(const AnswerDocument& d, const GatedLoraConfig& c,
                                       std::int64_t offsets, std::uint64_t seed) {
  const std::int64_t begin = std::max<std::int64_t>(d.prompt, 1);
  std::vector<std::int64_t> out;
  for (const std::int64_t offset : random_positions(d, seed, 0, c.block, offsets)) {
    for (std::int64_t p = begin + offset; p + c.first_slot < d.size(); p += c.block) {
      out.push_back(p);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<Figure> slot_figures(const MaskSlots& slots, const GatedLoraConfig& c,
                                 const at::Tensor& best, std::int64_t blocks) {
  constexpr std::int64_t kMostDrafts = 8;  // in a line of the log
  std::vector<Figure> out = kept_drafts(slots.draft, best, slots.label, blocks);
  const std::int64_t drafts = std::min(c.block - 1, kMostDrafts);
  for (std::int64_t k = 1; k < drafts; ++k) out.push_back({.name = fmt::format("slot{}", k + 1)});
  for (std::size_t i = 0; i < slots.draft.size(); ++i) {
    if (slots.draft[i] < 1 || slots.draft[i] >= drafts) continue;
    Figure& f = out[static_cast<std::size_t>(slots.draft[i]) + 1];
    f.numerator += best.const_data_ptr<std::int64_t>()[i] == slots.label[i] ? 1.0 : 0.0;
    f.denominator += 1.0;
  }
  return out;
}

}  // namespace forerun
