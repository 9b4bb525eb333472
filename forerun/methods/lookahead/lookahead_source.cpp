#include "forerun/methods/lookahead/lookahead_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "forerun/core/likeliest.h"

namespace forerun {
namespace {

constexpr std::size_t kRanks = 7;  // newest first; older ones count as the last
constexpr std::array<double, LookaheadSource::kMostNgram - 1> kPriors = {0.2, 0.4, 0.5, 0.55,
                                                                         0.6, 0.6, 0.6};
constexpr double kPriorWorth = 0.2;     // outputs of a window
constexpr std::size_t kMoreTrials = 2;  // windows after the first that gives n-grams

}  // namespace

LookaheadSource::LookaheadSource(const Options& options) : options_(options) {
  if (options.columns >= 1 && options.ngram >= 2 && options.ngram <= kMostNgram &&
      options.pool >= 1) {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "lookahead: a window of {} columns, n-grams of {} tokens, {} a key: give at least 1, 2 to "
      "{}, and at least 1",
      options.columns, options.ngram, options.pool, kMostNgram));
}

HitRates LookaheadSource::rates() const {
  return {kPriors.size() * kRanks, std::span(kPriors).first(options_.ngram - 1)};
}

void LookaheadSource::remember(std::any& memory) {
  if (!memory.has_value()) {
    memory = Memory{.pool = NgramPool(options_.pool),
                    .worth = {kPriorWorth, options_.ngram + kMoreTrials},
                    .texts = {}};
  }
  memory_ = std::any_cast<Memory>(&memory);
}

LookaheadSource::Memory& LookaheadSource::memory() {
  if (memory_ == nullptr) remember(own_);
  return *memory_;
}

LookaheadSource::Text& LookaheadSource::text_of(SequenceId id) {
  return texts_.try_emplace(id, Text{.window = {options_.columns, options_.ngram}}).first->second;
}

void LookaheadSource::match(Token key, Node& node) const {
  const auto grams = memory_->pool.after(key);
  for (std::size_t i = grams.size(); i-- > 0;) {
    node.matches.push_back({&grams[i], 0, grams.size() - 1 - i});
  }
}

bool LookaheadSource::begin(const TokenSequence& sequence) {
  if (memory().pool.keys() == 0) return false;
  nodes_.assign(1, {});
  match(sequence.tokens().back(), nodes_.front());
  return true;
}

void LookaheadSource::add(std::size_t parent, Token token) {
  Node node;
  for (const Match& m : nodes_[parent].matches) {
    if ((*m.next)[m.used] == token && m.used + 1 < m.next->size()) {
      node.matches.push_back({m.next, m.used + 1, m.rank});
    }
  }
  match(token, node);
  nodes_.push_back(std::move(node));
}

void LookaheadSource::children(std::vector<TreeChild>& out) {
  const std::size_t first = out.size();
  for (const Match& m : nodes_.back().matches) {  // those of the longest way first
    const Token token = (*m.next)[m.used];
    const bool there = std::any_of(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                                   [&](const TreeChild& c) { return c.token == token; });
    if (there) continue;
    const std::size_t cell = m.used * kRanks + std::min(m.rank, kRanks - 1);
    out.push_back({.token = token,
                   .cell = {static_cast<std::uint16_t>(cell), static_cast<std::uint16_t>(m.used)}});
  }
}

void LookaheadSource::companions(const TokenSequence& sequence, const TokenDraft& draft,
                                 const RowOffer& offer, CompanionRows& rows) {
  Text& text = text_of(sequence.id());
  const double price = offer.price(text.window.most_rows());
  Memory& m = memory();
  text.asked =
      text.window.most_rows() > 0 && (m.worth.mean(m.texts) > price || m.worth.tries(price));
  if (text.asked) text.window.add_rows(sequence.tokens(), draft, rows);
}

void LookaheadSource::earned(SequenceId) { memory().worth.earned(memory().texts); }
void LookaheadSource::spent(SequenceId, double outputs) {
  memory().worth.spent(memory().texts, outputs);
}

void LookaheadSource::observe(const VerifiedDraft& verified) {
  Text& text = text_of(verified.sequence.id());
  const bool ran = verified.companions_ran && text.asked;
  text.asked = false;
  const std::size_t emitted = verified.outcome.emitted;
  if (!ran) return text.window.skip(verified.sequence.tokens(), emitted);
  std::vector<Token> top;
  for (std::size_t i = 0; i < options_.columns; ++i) {
    const bool own = text.window.flat();  // column 0 has no row
    const auto best =
        likeliest(own && i == 0 ? verified.logits(0) : verified.companion(i - (own ? 1 : 0)), 1);
    if (best.empty()) return text.window.skip(verified.sequence.tokens(), emitted);  // not numbers
    top.push_back(best[0]);
  }
  Memory& m = memory();
  text.window.take(top, verified.sequence.tokens(), emitted,
                   [&](Token key, std::span<const Token> next) { m.pool.add(key, next); });
  m.worth.ran(m.texts);
}

}  // namespace forerun
