#include "forerun/methods/dflash/dflash_source.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr std::size_t kCandidates = 64;  // of a slot
constexpr float kWithin = 8.0F;          // nats below the likeliest, times the temperature
constexpr std::size_t kChildren = 8;     // of a node
constexpr double kNoiseTemperature = 0.8;

constexpr std::size_t kDepths = 6, kRanks = 4, kConfidences = 4;
constexpr std::array<double, 7> kBounds = {0.02, 0.06, 0.15, 0.3, 0.5, 0.7, 0.87};
constexpr std::array<double, 8> kMiddles = {0.01, 0.04, 0.1, 0.22, 0.4, 0.6, 0.78, 0.94};
constexpr std::size_t kScores = kMiddles.size();
constexpr std::size_t kCellsOfDepth = kScores * (kConfidences + kRanks - 1);

// Several maxima side by side, so that the loop vectorises.
float largest(std::span<const float> x) {
  std::array<float, 16> most;
  most.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + most.size() <= x.size(); i += most.size()) {
    for (std::size_t j = 0; j < most.size(); ++j) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  }
  float out = *std::max_element(most.begin(), most.end());
  for (; i < x.size(); ++i) out = std::max(out, x[i]);
  return out;
}

}  // namespace

HitRates DFlashSource::rates() const {
  std::vector<double> priors;
  for (const double trust : {0.9, 0.6}) {  // on the path of first choices; beside it
    for (const double p : kMiddles) priors.push_back(trust * p);
  }
  return {2 * kDepths * kCellsOfDepth, priors};
}

void DFlashSource::query(std::span<const TokenSequence* const> sequences) {
  std::vector<DFlashTexts::Wanted> wanted;
  for (const TokenSequence* sequence : sequences) {
    wanted.push_back({.sequence = sequence, .drafts = static_cast<std::int64_t>(block())});
  }
  blocks_ = texts_.forward(wanted);
  first_.clear();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (blocks_.first[i] >= 0) first_[sequences[i]->id()] = blocks_.first[i];
  }
}

bool DFlashSource::begin(const TokenSequence& sequence) {
  const auto found = first_.find(sequence.id());
  if (found == first_.end()) return false;
  sequence_ = &sequence;
  row_ = found->second;
  slots_.clear();
  nodes_.assign(1, {.token = sequence.tokens().back()});
  return true;
}

void DFlashSource::add(std::size_t parent, Token token) {
  const Node& from = nodes_[parent];
  nodes_.push_back({.token = token,
                    .depth = from.depth + 1,
                    .likeliest = from.likeliest && token == from.first});
}

double DFlashSource::temperature() const {
  return sequence_->sampling().greedy() ? 1.0 : sequence_->sampling().temperature;
}

// The candidates of the slot after `previous`, the first node of its depth, which is the likeliest.
void DFlashSource::open(std::size_t depth, Token previous) {
  const at::Tensor& all = blocks_.rows.logits;
  const auto vocab = static_cast<std::size_t>(all.size(1));
  const float* logits =
      all.const_data_ptr<float>() + (row_ + static_cast<std::int64_t>(depth)) * all.size(1);
  std::vector<float> given(logits, logits + vocab);
  if (texts_.network().has_markov()) texts_.network().add_markov(previous, given);
  const float best = largest(given);
  const float least = best - kWithin * static_cast<float>(std::max(1.0, temperature()));
  Slot slot;
  for (std::size_t i = 0; i < vocab; ++i) {
    if (given[i] >= least) slot.ids.push_back(static_cast<std::int32_t>(i));
  }
  const auto weight = [&](std::int32_t id) {
    return std::exp(static_cast<double>(given[static_cast<std::size_t>(id)] - best));
  };
  double rest = 1e-12;  // of those too small to matter
  if (slot.ids.size() > kCandidates) {
    std::nth_element(slot.ids.begin(), slot.ids.begin() + kCandidates, slot.ids.end(),
                     [&](std::int32_t a, std::int32_t b) {
                       const auto x = given[static_cast<std::size_t>(a)],
                                  y = given[static_cast<std::size_t>(b)];
                       return x != y ? x > y : a < b;
                     });
    for (std::size_t i = kCandidates; i < slot.ids.size(); ++i) rest += weight(slot.ids[i]);
    slot.ids.resize(kCandidates);
  }
  for (const std::int32_t id : slot.ids) slot.logits.push_back(logits[id]);
  slot.rest = std::log(rest) + static_cast<double>(best);
  slots_.push_back(std::move(slot));
}

// Top-k, top-p and min-p, on the candidates alone.
void DFlashSource::cut(std::vector<Ranked>& by_q) const {
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

std::vector<DFlashSource::Ranked> DFlashSource::ranked(const Node& node) {
  const Slot& slot = slots_[node.depth];
  if (slot.ids.empty()) return {};  // scores that are not numbers
  std::vector<float> logits = slot.logits;
  if (texts_.network().has_markov()) {
    texts_.network().add_markov(node.token, slot.ids, logits);
  }
  const double t = temperature();
  const double best = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = std::exp((slot.rest - best) / t);
  for (const float x : logits) sum += std::exp((static_cast<double>(x) - best) / t);
  std::vector<Ranked> out;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double log_q = (static_cast<double>(logits[i]) - best) / t - std::log(sum);
    out.push_back({slot.ids[i], log_q, log_q});
  }
  const auto by_score = [](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  };
  const TokenSequence& sequence = *sequence_;
  if (sequence.sampling().greedy() || sequence.rule() != Rule::kSharedNoise) {
    const std::size_t n = std::min(out.size(), kChildren);
    std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n), out.end(),
                      by_score);
    out.resize(n);
    if (!sequence.sampling().greedy()) cut(out);
    return out;
  }
  std::sort(out.begin(), out.end(), by_score);
  cut(out);
  out[0].without_noise = true;
  const RngKey key = sequence.key_at(sequence.tokens().size() + node.depth);
  for (Ranked& r : out) {
    r.score = (r.log_q + shared_noise(texts_.network().token(r.id), key)) / kNoiseTemperature;
  }
  std::sort(out.begin(), out.end(), by_score);
  double all = 0.0;
  for (const Ranked& r : out) all += std::exp(r.score - out[0].score);
  const double log_all = out[0].score + std::log(all);
  for (Ranked& r : out) r.score -= log_all;
  // That one stays among the candidates, wherever the noise puts it.
  const auto first =
      std::find_if(out.begin(), out.end(), [](const Ranked& r) { return r.without_noise; });
  if (first - out.begin() >= static_cast<std::ptrdiff_t>(kChildren)) {
    std::rotate(out.begin() + kChildren - 1, first, first + 1);
  }
  out.resize(std::min(out.size(), kChildren));
  return out;
}

// The network's estimate that its first choice after the node is kept.
std::size_t DFlashSource::confidence_bin(const Node& node) const {
  const DFlashPasses& network = texts_.network();
  if (!network.has_confidence()) return 0;
  const at::Tensor& hidden = blocks_.rows.hidden;
  const auto width = static_cast<std::size_t>(hidden.size(1));
  const float* row = hidden.const_data_ptr<float>() +
                     (row_ + static_cast<std::int64_t>(node.depth)) * hidden.size(1);
  const double p = network.confidence({row, width}, node.token);
  return std::min(kConfidences - 1, static_cast<std::size_t>(p * double{kConfidences}));
}

void DFlashSource::children(std::vector<TreeChild>& out) {
  Node& node = nodes_.back();
  if (node.depth >= block()) return;
  if (slots_.size() == node.depth) open(node.depth, node.token);
  const std::vector<Ranked> all = ranked(node);
  if (all.empty()) return;
  node.first = texts_.network().token(all[0].id);
  const std::size_t beside = node.likeliest ? 0 : 1;
  const std::size_t first_cell =
      (beside * kDepths + std::min(node.depth, kDepths - 1)) * kCellsOfDepth;
  const std::size_t confidence = confidence_bin(node);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const double p = std::exp(all[rank].score);
    const auto bin = static_cast<std::size_t>(std::upper_bound(kBounds.begin(), kBounds.end(), p) -
                                              kBounds.begin());
    const std::size_t kind = rank == 0 ? confidence : kConfidences + std::min(rank, kRanks - 1) - 1;
    out.push_back({.token = texts_.network().token(all[rank].id),
                   .without_noise = all[rank].without_noise,
                   .cell = {static_cast<std::uint16_t>(first_cell + kind * kScores + bin),
                            static_cast<std::uint16_t>(beside * kScores + bin)}});
  }
}

}  // namespace forerun
