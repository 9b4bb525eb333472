#include "forerun/methods/tree/slot_source.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "forerun/core/ngram_key.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/tree/keep_allowed.h"
#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

constexpr std::size_t kChildren = 8;  // of a node
constexpr double kNoiseTemperature = 0.8;
// Share of the text's trigrams in a law: beside sources that know the text too; alone, without
// evidence, and what evidence of 1 adds.
constexpr double kTextShare = 0.25, kLeastTextShare = 0.1, kEvidenceShare = 0.6;
constexpr double kMostChange = 600.0;  // nats: its exponential is finite
constexpr double kLeastLikely = 1e-6;  // no noise makes less the choice

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
  found_.clear();
  return true;
}

// Before the first is opened: one thread would take a tenth of a draft's time for them, while the
// others wait. A thread alone finds each when it is asked for.
void SlotSource::find_likeliest() {
  const int threads = at::get_num_threads();
  if (threads <= 1 || block_ <= 1 || !abreast()) return;
  found_.resize(block_);
  const auto slots = static_cast<std::int64_t>(block_);
  ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
    w.each(slots, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        found_[i] = likeliest(i);
      }
    });
  });
}

void SlotSource::add(std::size_t parent, Token token) {
  const Node& from = nodes_[parent];
  nodes_.push_back({.token = token,
                    .parent = parent,
                    .depth = from.depth + 1,
                    .likeliest = from.likeliest && token == from.first});
}

double SlotSource::temperature_of(const TokenSequence& sequence) {
  return sequence.sampling().greedy() ? 1.0 : sequence.sampling().temperature;
}

// The candidates of the slot after `previous`, the first node of its depth, which is the likeliest.
void SlotSource::open(std::size_t depth, Token previous) {
  if (depth == 0) find_likeliest();
  SlotCandidates all = found_.empty() ? likeliest(depth) : std::move(found_[depth]);
  if (!conditioned() || all.complete) {
    slots_.push_back({.likeliest = std::move(all)});
    return;
  }
  std::vector<float> given = all.logits;
  condition(depth, previous, all.ids, given);
  slots_.push_back({.likeliest = slot_candidates(all, given, temperature())});
}

// Top-k, top-p and min-p, on the candidates alone.
void SlotSource::cut(std::vector<Ranked>& by_q) const {
  const SamplingParams& s = sequence_->sampling();
  std::size_t keep = by_q.size();
  if (s.top_k > 0) keep = std::min<std::size_t>(keep, s.top_k);
  double mass = 0.0;
  for (std::size_t i = 0; i < keep; ++i) {
    // The likeliest is always within: of a top-p of 0 it is all that is left.
    if (i > 0 && (mass >= s.top_p || by_q[i].q < s.min_p * by_q[0].q)) keep = i;
    mass += by_q[i].q;
  }
  by_q.resize(keep);
}

// The law of the slot after a token, on its candidates.
std::vector<SlotSource::Ranked> SlotSource::laws(std::size_t slot, Token previous) {
  Slot& of = slots_[slot];
  if (!of.laws.empty()) return of.laws;
  std::vector<float> logits = of.likeliest.logits;
  if (conditioned()) condition(slot, previous, of.likeliest.ids, logits);
  // As the text so far changes them; what drafts before the slot would change is left out.
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = sequence_->changed().of(token(of.likeliest.ids[i]), logits[i]);
  }
  const std::vector<double> q = forerun::laws(of.likeliest, logits, temperature());
  std::vector<Ranked> out;
  out.reserve(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) out.push_back({token(of.likeliest.ids[i]), q[i]});
  if (!conditioned()) of.laws = out;
  return out;
}

std::vector<SlotSource::Ranked> SlotSource::candidates(std::size_t slot, std::size_t most) {
  while (slots_.size() <= slot) open(slots_.size(), nodes_[0].token);
  std::vector<Ranked> out = laws(slot, nodes_[0].token);
  if (!out.empty()) put_in_order(out, slot, most);
  return out;
}

std::vector<Token> SlotSource::path_to(const Node& node) const {
  std::vector<Token> out(node.depth);
  for (const Node* at = &node; at->depth > 0; at = &nodes_[at->parent]) {
    out[at->depth - 1] = at->token;
  }
  return out;
}

std::vector<SlotSource::Ranked> SlotSource::ranked(const Node& node) {
  std::vector<Ranked> out = laws(node.depth, node.token);
  if (out.empty()) return out;  // scores that are not numbers
  weigh(node, out);
  keep_allowed(
      *sequence_, [&] { return path_to(node); }, out, [](const Ranked& r) { return r.token; });
  if (out.empty()) return out;
  put_in_order(out, node.depth, kChildren);
  if (const std::optional<Token> first = preferred(node)) {
    const auto at =
        std::find_if(out.begin(), out.end(), [&](const Ranked& r) { return r.token == *first; });
    if (at != out.end()) std::rotate(out.begin(), at, at + 1);
  }
  return out;
}

const OnlineNgram& SlotSource::trigrams() {
  OnlineNgram& law =
      trigrams_.try_emplace(sequence_->id(), std::int64_t{ngram_key::kMostTokens}).first->second;
  law.read(sequence_->tokens());
  return law;
}

Token SlotSource::before(const Node& node) const {
  if (node.depth > 0) return nodes_[node.parent].token;
  const std::span<const Token> text = sequence_->tokens();
  return text.size() >= 2 ? text[text.size() - 2] : NgramLaw::kNoToken;
}

void SlotSource::add_followers(const Node& node, std::vector<Ranked>& candidates) {
  if (!alone_) return;
  for (const Token t : trigrams().followers(before(node), node.token)) {
    if (std::none_of(candidates.begin(), candidates.end(),
                     [&](const Ranked& r) { return r.token == t; })) {
      candidates.push_back({t, 0.0});
    }
  }
}

void SlotSource::weigh(const Node& node, std::vector<Ranked>& candidates) {
  add_followers(node, candidates);
  const OnlineNgram& law = trigrams();
  std::vector<Token> next;
  next.reserve(candidates.size());
  for (const Ranked& r : candidates) next.push_back(r.token);
  const Token previous = before(node);
  std::vector<double> mixed = law.probs(previous, node.token, next);
  const double share =
      alone_ ? kLeastTextShare + kEvidenceShare * law.evidence(previous, node.token) : kTextShare;
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    // As a bias or a penalty changes a token's logit, so its part of the text's law.
    const float change = sequence_->changed().of(next[i], 0.0F);
    if (change != 0.0F) {
      mixed[i] *= std::exp(std::clamp(change / temperature(), -kMostChange, kMostChange));
    }
    mixed[i] = share * mixed[i] + (1.0 - share) * candidates[i].q;
  }
  reweigh(candidates, mixed);
}

void SlotSource::reweigh(std::vector<Ranked>& candidates, std::span<const double> weights) {
  double before = 0.0, after = 0.0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    before += candidates[i].q;
    after += weights[i];
  }
  const double scale = before / after;
  if (!(after > 0.0) || !std::isfinite(scale)) return;
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].q = scale * weights[i];
}

// By falling probability, with noise by falling score; the best alone.
void SlotSource::put_in_order(std::vector<Ranked>& out, std::size_t slot, std::size_t most) const {
  const auto by = [](double Ranked::*what) {
    return [what](const Ranked& a, const Ranked& b) {
      return a.*what != b.*what ? a.*what > b.*what : a.token < b.token;
    };
  };
  const SamplingParams& s = sequence_->sampling();
  if (!noise_decides(*sequence_)) {
    const std::size_t n = std::min(out.size(), most);
    std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n), out.end(),
                      by(&Ranked::q));
    out.resize(n);
    if (!s.greedy()) cut(out);
    for (Ranked& r : out) r.score = r.q;
    return;
  }
  if (s.top_k > 0 || s.top_p < 1.0 || s.min_p > 0.0) {
    std::sort(out.begin(), out.end(), by(&Ranked::q));
    cut(out);
  }
  add_noise(slot, out);
  const std::size_t n = std::min(out.size(), most);
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n), out.end(),
                    by(&Ranked::score));
  out.resize(n);
}

// The noise that will decide is known: how likely each is the first choice with it. Scores add up
// to 1, so candidates go that a bias has made improbable.
void SlotSource::add_noise(std::size_t slot, std::vector<Ranked>& candidates) const {
  std::erase_if(candidates, [](const Ranked& r) { return !(r.q >= kLeastLikely); });
  const RngKey key = sequence_->key_at(sequence_->tokens().size() + slot);
  double best = -std::numeric_limits<double>::infinity(), all = 0.0;
  for (Ranked& r : candidates) {
    r.score = (std::log(r.q) + shared_noise(r.token, key)) / kNoiseTemperature;
    best = std::max(best, r.score);
  }
  for (Ranked& r : candidates) all += r.score = std::exp(r.score - best);
  for (Ranked& r : candidates) r.score /= all;
}

void SlotSource::children(std::vector<TreeChild>& out) {
  Node& node = nodes_.back();
  if (node.depth >= block_ || !knows(node)) return;
  if (slots_.size() == node.depth) open(node.depth, node.token);
  const std::vector<Ranked> all = ranked(node);
  if (all.empty()) return;
  node.first = all[0].token;
  const std::size_t beside = node.likeliest ? 0 : 1;
  const std::size_t first_cell =
      (beside * kDepths + std::min(node.depth, kDepths - 1)) * kCellsOfDepth;
  const auto bin_of = [](double p) {
    return p >= 0.0 ? static_cast<std::size_t>(p * double{kConfidences}) : 0;  // not NaN
  };
  const std::size_t sure = std::min(kConfidences - 1, bin_of(confidence(node, node.first)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const double p = all[rank].score;
    const auto bin = static_cast<std::size_t>(std::upper_bound(kBounds.begin(), kBounds.end(), p) -
                                              kBounds.begin());
    const std::size_t kind = rank == 0 ? sure : kConfidences + std::min(rank, kRanks - 1) - 1;
    out.push_back({.token = all[rank].token,
                   .cell = {static_cast<std::uint16_t>(first_cell + kind * kScores + bin),
                            static_cast<std::uint16_t>(beside * kScores + bin)}});
  }
}

}  // namespace forerun
