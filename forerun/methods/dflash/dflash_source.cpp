#include "forerun/methods/dflash/dflash_source.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

std::span<const float> row_at(const at::Tensor& rows, std::int64_t row) {
  return {rows.const_data_ptr<float>() + row * rows.size(1),
          static_cast<std::size_t>(rows.size(1))};
}

}  // namespace

void DFlashSource::query(std::span<const TokenSequence* const> sequences) {
  std::vector<DFlashTexts::Wanted> wanted;
  for (const TokenSequence* sequence : sequences) {
    wanted.push_back({.sequence = sequence, .drafts = static_cast<std::int64_t>(block())});
  }
  blocks_ = texts_.forward(wanted);
  first_.clear();
  std::vector<double> temperatures(
      static_cast<std::size_t>(blocks_.rows.logits.defined() ? blocks_.rows.logits.size(0) : 0));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (blocks_.first[i] < 0) continue;
    first_[sequences[i]->id()] = blocks_.first[i];
    std::fill_n(temperatures.begin() + blocks_.first[i], block(), temperature_of(*sequences[i]));
  }
  find_likeliest(temperatures);
}

// On all threads, of all slots: one thread would take a tenth of a draft's time for it.
void DFlashSource::find_likeliest(std::span<const double> temperatures) {
  likeliest_.resize(temperatures.size());
  const auto find = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto i = static_cast<std::size_t>(row);
      likeliest_[i] = candidates_of(row, temperatures[i]);
    }
  };
  const auto rows = static_cast<std::int64_t>(temperatures.size());
  const int threads = static_cast<int>(std::min<std::int64_t>(at::get_num_threads(), rows));
  if (threads <= 1) return find(0, rows);
  ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) { w.each(rows, 1, find); });
}

std::size_t DFlashSource::slots_of(const TokenSequence& sequence) {
  const auto found = first_.find(sequence.id());
  if (found == first_.end()) return 0;
  row_ = found->second;
  return block();
}

SlotCandidates DFlashSource::likeliest(std::size_t slot) const {
  return likeliest_[static_cast<std::size_t>(row_) + slot];
}

SlotCandidates DFlashSource::candidates_of(std::int64_t row, double temperature) const {
  const std::span<const float> logits = row_at(blocks_.rows.logits, row);
  if (!texts_.network().selects()) return slot_candidates(logits, temperature, bounds_of(logits));
  SlotCandidates out{.ids = texts_.network().candidates(logits), .complete = true};
  for (const std::int32_t id : out.ids) out.logits.push_back(logits[static_cast<std::size_t>(id)]);
  out.rest = -std::numeric_limits<double>::infinity();  // nothing else can be drafted
  return out;
}

void DFlashSource::condition(std::size_t slot, Token previous,
                             std::span<const std::int32_t> columns, std::span<float> logits) const {
  texts_.network().condition(previous, blocks_.rows.state(row_ + static_cast<std::int64_t>(slot)),
                             columns, logits);
}

double DFlashSource::confidence(const Node& node, Token) const {
  const DFlashPasses& network = texts_.network();
  if (!network.has_confidence()) return 0.0;
  return network.confidence(
      row_at(blocks_.rows.hidden, row_ + static_cast<std::int64_t>(node.depth)), node.token);
}

}  // namespace forerun
