#include "forerun/train/answers/draft_targets.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace forerun {

std::vector<std::int64_t> places_of_tokens(std::int64_t vocab, const at::Tensor& tokens) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(vocab), -1);
  if (!tokens.defined()) {
    std::iota(out.begin(), out.end(), std::int64_t{0});
    return out;
  }
  const at::Tensor ids = tokens.contiguous();
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    out[static_cast<std::size_t>(ids.const_data_ptr<std::int64_t>()[i])] = i;
  }
  return out;
}

DistinctRows distinct_rows(std::span<const std::int64_t> numbers) {
  DistinctRows out{.rows = {}, .of = std::vector<std::int64_t>(numbers.size())};
  std::vector<std::int64_t> rows(numbers.begin(), numbers.end());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::transform(numbers.begin(), numbers.end(), out.of.begin(), [&](std::int64_t row) {
    return std::lower_bound(rows.begin(), rows.end(), row) - rows.begin();
  });
  out.rows = at::tensor(rows, at::kLong);
  return out;
}

std::vector<std::int64_t> random_positions(const AnswerDocument& document, std::uint64_t seed,
                                           std::int64_t first, std::int64_t last,
                                           std::int64_t most) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::max<std::int64_t>(last - first, 0)));
  std::iota(all.begin(), all.end(), first);
  const auto n = std::min(all.size(), static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t left = all.size() - i;
    const std::uint64_t pick =
        random_word(seed, document, static_cast<std::uint32_t>(i)) * left >> 32;
    std::swap(all[i], all[i + pick]);
  }
  all.resize(n);
  std::sort(all.begin(), all.end());
  return all;
}

float draft_weight(std::int64_t k, double gamma) {
  return static_cast<float>(std::exp(-static_cast<double>(k) / gamma));
}

void DraftLabels::add(const AnswerDocument& d, std::int64_t first_row, std::int64_t block,
                      std::int64_t anchor, DraftSlots& slots) const {
  for (std::int64_t k = 0; k < drafts; ++k) {
    const std::int64_t position = anchor + 1 + k;
    if (position >= d.size()) return;
    const auto at = static_cast<std::size_t>(position);
    const std::int64_t label = drafted[static_cast<std::size_t>(d.tokens[at])];
    if (label < 0) return;
    slots.block.push_back(block);
    slots.draft.push_back(k);
    slots.label.push_back(label);
    slots.previous.push_back(d.tokens[at - 1]);
    slots.teacher.push_back(first_row + position - 1);
    slots.weight.push_back(draft_weight(k, gamma));
  }
}

std::vector<Figure> kept_drafts(std::span<const std::int64_t> draft, const at::Tensor& best,
                                std::span<const std::int64_t> label, std::int64_t blocks) {
  double first = 0.0, run = 0.0;
  bool alive = false;
  for (std::size_t i = 0; i < draft.size(); ++i) {
    if (draft[i] < 0) continue;
    const bool begins = draft[i] == 0;
    const bool right = best.const_data_ptr<std::int64_t>()[i] == label[i];
    alive = (begins || alive) && right;
    first += begins && right ? 1.0 : 0.0;
    run += alive ? 1.0 : 0.0;
  }
  const auto all = static_cast<double>(blocks);
  return {{"first", first, all}, {"tau", run + all, all}};
}

}  // namespace forerun
