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

void MaskSlots::append(const MaskSlots& from, std::size_t slot) {
  row.push_back(from.row[slot]);
  draft.push_back(from.draft[slot]);
  label.push_back(from.label[slot]);
  previous.push_back(from.previous[slot]);
  teacher.push_back(from.teacher[slot]);
  weight.push_back(from.weight[slot]);
}

MaskSlots mask_at_random(const MaskSlots& slots, const AnswerDocument& d, std::uint64_t seed,
                         std::span<Token> shown) {
  constexpr std::uint32_t kWords = 0x80000000U;  // those below choose positions of blocks
  constexpr double kLeast = 0.001;
  const auto uniform = [&](std::size_t i) {
    return random_word(seed, d, kWords + static_cast<std::uint32_t>(i)) * 0x1p-32;
  };
  const double p = kLeast + (1.0 - kLeast) * uniform(0);
  MaskSlots out;
  for (std::size_t i = 0; i < slots.row.size(); ++i) {
    if (uniform(i + 1) < p) {
      out.append(slots, i);
    } else {
      shown[static_cast<std::size_t>(slots.row[i])] = static_cast<Token>(slots.label[i]);
    }
  }
  return out;
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
