#include "forerun/methods/tree/slot_source.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr std::size_t kChildren = 8;  // of a node
constexpr double kNoiseTemperature = 0.8;

constexpr std::size_t kDepths = 6, kRanks = 4, kConfidences = 4;
constexpr std::array<double, 7> kBounds = {0.02, 0.06, 0.15, 0.3, 0.5, 0.7, 0.87};
constexpr std::array<double, 8> kMiddles = {0.01, 0.04, 0.1, 0.22, 0.4, 0.6, 0.78, 0.94};
constexpr std::size_t kScores = kMiddles.size();
constexpr std::size_t kCellsOfDepth = kScores * (kConfidences + kRanks - 1);

}  // namespace

HitRates SlotSource::rates() const {
  std::vector<double> priors;
  for (const double trust : {0.9, 0.6}) {  // on the path of first choices; beside it
    for (const double p : kMiddles) priors.push_back(trust * p);
  }
  return {2 * kDepths * kCellsOfDepth, priors};
}

bool SlotSource::begin(const TokenSequence& sequence) {
  block_ = slots_of(sequence);
  if (block_ == 0) return false;
  sequence_ = &sequence;
  slots_.clear();
  nodes_.assign(1, {.token = sequence.tokens().back()});
  return true;
}

void SlotSource::add(std::size_t parent, Token token) {
  const Node& from = nodes_[parent];
  nodes_.push_back({.token = token,
                    .depth = from.depth + 1,
                    .likeliest = from.likeliest && token == from.first});
}

double SlotSource::temperature() const {
  return sequence_->sampling().greedy() ? 1.0 : sequence_->sampling().temperature;
}

// The candidates of the slot after `previous`, the first node of its depth, which is the likeliest.
void SlotSource::open(std::size_t depth, Token previous) {
  const std::span<const float> row = logits(depth);
  Slot slot;
  if (conditioned()) {
    std::vector<float> given(row.begin(), row.end());
    condition(previous, given);
    slot.candidates = slot_candidates(given, temperature());
  } else {
    slot.candidates = slot_candidates(row, temperature());
  }
  for (const std::int32_t id : slot.candidates.ids) {
    slot.logits.push_back(row[static_cast<std::size_t>(id)]);
  }
  slots_.push_back(std::move(slot));
}

// Top-k, top-p and min-p, on the candidates alone.
void SlotSource::cut(std::vector<Ranked>& by_q) const {
  const SamplingParams& s = sequence_->sampling();
  std::size_t keep = by_q.size();
  if (s.top_k > 0) keep = std::min<std::size_t>(keep, s.top_k);
  double mass = 0.0;
  for (std::size_t i = 0; i < keep; ++i) {
    const double q = std::exp(by_q[i].log_q);
    if (mass >= s.top_p || (i > 0 && q < s.min_p * std::exp(by_q[0].log_q))) keep = i;
    mass += q;
  }
  by_q.resize(keep);
}

// The law of the slot after the node, on its candidates.
std::vector<SlotSource::Ranked> SlotSource::laws(const Node& node) const {
  const Slot& slot = slots_[node.depth];
  std::vector<float> logits = slot.logits;
  if (conditioned()) condition(node.token, slot.candidates.ids, logits);
  const double t = temperature();
  const double best = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = std::exp((slot.candidates.rest - best) / t);
  for (const float x : logits) sum += std::exp((static_cast<double>(x) - best) / t);
  std::vector<Ranked> out;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double log_q = (static_cast<double>(logits[i]) - best) / t - std::log(sum);
    out.push_back({slot.candidates.ids[i], log_q, log_q});
  }
  return out;
}

std::vector<SlotSource::Ranked> SlotSource::ranked(const Node& node) const {
  if (slots_[node.depth].candidates.ids.empty()) return {};  // scores that are not numbers
  std::vector<Ranked> out = laws(node);
  const auto by_score = [](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  };
  const bool greedy = sequence_->sampling().greedy();
  if (greedy || sequence_->rule() != Rule::kSharedNoise) {
    const std::size_t n = std::min(out.size(), kChildren);
    std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n), out.end(),
                      by_score);
    out.resize(n);
    if (!greedy) cut(out);
    return out;
  }
  std::sort(out.begin(), out.end(), by_score);
  cut(out);
  add_noise(node, out);
  std::sort(out.begin(), out.end(), by_score);
  double all = 0.0;
  for (const Ranked& r : out) all += std::exp(r.score - out[0].score);
  const double log_all = out[0].score + std::log(all);
  for (Ranked& r : out) r.score -= log_all;
  // The first without noise stays among the candidates, wherever the noise puts it.
  const auto first =
      std::find_if(out.begin(), out.end(), [](const Ranked& r) { return r.without_noise; });
  if (first - out.begin() >= static_cast<std::ptrdiff_t>(kChildren)) {
    std::rotate(out.begin() + kChildren - 1, first, first + 1);
  }
  out.resize(std::min(out.size(), kChildren));
  return out;
}

void SlotSource::add_noise(const Node& node, std::vector<Ranked>& by_q) const {
  by_q[0].without_noise = true;
  const RngKey key = sequence_->key_at(sequence_->tokens().size() + node.depth);
  for (Ranked& r : by_q) {
    r.score = (r.log_q + shared_noise(token(r.id), key)) / kNoiseTemperature;
  }
}

void SlotSource::children(std::vector<TreeChild>& out) {
  Node& node = nodes_.back();
  if (node.depth >= block_) return;
  if (slots_.size() == node.depth) open(node.depth, node.token);
  const std::vector<Ranked> all = ranked(node);
  if (all.empty()) return;
  node.first = token(all[0].id);
  const std::size_t beside = node.likeliest ? 0 : 1;
  const std::size_t first_cell =
      (beside * kDepths + std::min(node.depth, kDepths - 1)) * kCellsOfDepth;
  const auto bin_of = [](double p) { return static_cast<std::size_t>(p * double{kConfidences}); };
  const std::size_t sure = std::min(kConfidences - 1, bin_of(confidence(node.depth, node.token)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const double p = std::exp(all[rank].score);
    const auto bin = static_cast<std::size_t>(std::upper_bound(kBounds.begin(), kBounds.end(), p) -
                                              kBounds.begin());
    const std::size_t kind = rank == 0 ? sure : kConfidences + std::min(rank, kRanks - 1) - 1;
    out.push_back({.token = token(all[rank].id),
                   .without_noise = all[rank].without_noise,
                   .cell = {static_cast<std::uint16_t>(first_cell + kind * kScores + bin),
                            static_cast<std::uint16_t>(beside * kScores + bin)}});
  }
}

}  // namespace forerun
