#include "forerun/methods/tidar/tidar_blocks.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace forerun {
namespace {

constexpr double kPriorWorth = 0.6;    // outputs of a block
constexpr double kPriorKept = 0.75;    // of a released model's drafts; its paper has 0.85
constexpr std::size_t kTrial = 4;      // rounds
constexpr double kLeastChance = 0.02;  // that a replica is needed: of those that cost nothing
constexpr double kLikely = 0.25;       // of a pruned form, and of a trial

// Expected outputs of a block before any is known.
double prior_worth(const GatedLoraConfig& c) {
  if (!c.seeded) return kPriorWorth;
  double sum = 0.0, reach = 1.0;
  for (std::int64_t draft = 1; draft < c.block; ++draft) sum += reach *= kPriorKept;
  return sum;
}

}  // namespace

TidarBlocks::TidarBlocks(std::shared_ptr<const GatedLora> lora, TidarForm form, Kept kept,
                         const TidarMix& mix)
    : lora_(std::move(lora)), form_(form), kept_(kept), mix_(mix) {
  const GatedLoraConfig& c = lora_->config;
  if (!mixes()) return;
  if (form == TidarForm::kFused && c.first_slot == 0 && !markov().defined() && mix.beta >= 0.0) {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "tidar: beta {} needs a slot 0 and no Markov head; these adapters have first_slot {} and "
      "markov_rank {}: train with --first-slot and --markov 0",
      mix.beta, c.first_slot, c.markov_rank));
}

void TidarBlocks::remember(std::any& memory) {
  if (!memory.has_value()) memory = CompanionWorth(prior_worth(lora_->config), kTrial);
  worth_ = std::any_cast<CompanionWorth>(&memory);
}

CompanionWorth& TidarBlocks::worth() {
  if (worth_ == nullptr) remember(own_);
  return *worth_;
}

std::size_t TidarBlocks::drafts(SequenceId id) const {
  const auto text = texts_.find(id);
  return text == texts_.end() || (text->second.rows.empty() && text->second.likeliest.empty())
             ? 0
             : static_cast<std::size_t>(lora_->config.block - 1);
}

std::span<const float> TidarBlocks::logits(SequenceId id, std::size_t i) const {
  const auto vocab = static_cast<std::size_t>(lora_->config.vocab);
  return std::span(texts_.at(id).rows).subspan(i * vocab, vocab);
}

const SlotCandidates& TidarBlocks::likeliest(SequenceId id, std::size_t i) const {
  return texts_.at(id).likeliest[i];
}

void TidarBlocks::keep(std::span<const float> logits, const TokenSequence& sequence,
                       Text& text) const {
  if (kept_ == Kept::kRows) {
    text.rows.insert(text.rows.end(), logits.begin(), logits.end());
    return;
  }
  const double temperature = sequence.sampling().greedy() ? 1.0 : sequence.sampling().temperature;
  text.likeliest.push_back(slot_candidates(
      logits, temperature, SlotCandidates::bounds_of(logits.size(), markov().defined())));
}

// Whether a replica runs.
// @param drafted  the pass has drafts
bool TidarBlocks::wants(const Text& text, double chance, bool drafted, double price) {
  switch (form_) {
    case TidarForm::kMeasured:
      return chance >= kLeastChance && chance * worth().mean(text.worth) > price;
    case TidarForm::kFused:
      return true;
    case TidarForm::kPruned:
      return chance >= kLikely;
    case TidarForm::kTwoPass:
      return !drafted;
    case TidarForm::kPlain:
      return false;
  }
  return false;
}

void TidarBlocks::companions(const TokenSequence& sequence, const TokenDraft& draft,
                             const RowOffer& offer, CompanionRows& rows) {
  Text& text = texts_[sequence.id()];
  text.replicas.clear();
  if (sequence.remaining() < 2 && !mixes()) return;
  const std::vector<double> ends = ends_of(draft, offer.reach);
  std::vector<std::int32_t> order(ends.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i) - 1;
  const auto chance = [&](std::int32_t after) { return ends[static_cast<std::size_t>(after + 1)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return chance(a) > chance(b); });
  const auto own = static_cast<std::size_t>(lora_->config.rows());
  const Token newest = sequence.tokens().back();
  const auto add = [&](std::int32_t after) {
    text.replicas.push_back(after);
    add_replica(lora_, {.after = after, .newest = newest, .first_wanted = first_wanted()}, draft,
                rows);
  };
  for (const std::int32_t after : order) {
    if (mixes() && !fits(sequence, after)) continue;
    if (!wants(text, chance(after), draft.size() > 0, offer.price(own))) break;
    add(after);
  }
  if (mixes()) mix(draft, text, rows);
  if (form_ != TidarForm::kMeasured || !text.replicas.empty()) return;
  if (worth().tries(offer.price(own))) add(order[0]);
}

// Whether the block after a drafted token of a chain lies within the context.
bool TidarBlocks::fits(const TokenSequence& sequence, std::int32_t after) const noexcept {
  const auto read = static_cast<std::int64_t>(sequence.tokens().size());
  return read + after + 1 + lora_->config.block <= mix_.context;
}

// The replica after a token has slot 0 where the row of that token has the next output. Replicas
// are the first rows of the pass's companions: nothing else drafts beside them.
void TidarBlocks::mix(const TokenDraft& draft, const Text& text, CompanionRows& rows) const {
  const auto slots = static_cast<std::int32_t>(lora_->config.slots());
  rows.mix = {.own = mix_.beta, .companions = std::vector<std::int32_t>(draft.size() + 1, -1)};
  for (std::size_t r = 0; r < text.replicas.size(); ++r) {
    rows.mix.companions[static_cast<std::size_t>(text.replicas[r] + 1)] =
        static_cast<std::int32_t>(r) * slots;
  }
}

void TidarBlocks::observe(const VerifiedDraft& verified) {
  const SequenceId id = verified.sequence.id();
  const auto found = texts_.find(id);
  if (found == texts_.end()) return;
  Text& text = found->second;
  text.rows.clear();
  text.likeliest.clear();
  const std::vector<std::int32_t> replicas = std::exchange(text.replicas, {});
  if (!verified.companions_ran || verified.sequence.done()) return;
  const Outcome& outcome = verified.outcome;
  const auto last = static_cast<std::int32_t>(outcome.decided_by(outcome.accepted)) - 1;
  const auto at = std::find(replicas.begin(), replicas.end(), last);
  if (at == replicas.end()) return;
  // Slot 0 stands for the output that is decided already.
  const auto drafts = static_cast<std::size_t>(lora_->config.block - 1);
  const auto scored = drafts + (mixes() ? 1 : 0);
  const std::size_t first =
      static_cast<std::size_t>(at - replicas.begin()) * scored + scored - drafts;
  for (std::size_t s = 0; s < drafts; ++s) {
    keep(verified.companion(first + s), verified.sequence, text);
  }
  worth().ran(text.worth);
}

}  // namespace forerun
