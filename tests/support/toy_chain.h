#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "tests/support/laws.h"

namespace forerun::support {

/// A Markov chain with known conditionals: one law for each of the vocab^order last tokens.
class MarkovTable {
 public:
  MarkovTable(std::size_t vocab, std::size_t order, std::uint64_t seed, float spread)
      : vocab_(vocab), order_(order) {
    std::size_t contexts = 1;
    for (std::size_t i = 0; i < order; ++i) contexts *= vocab;
    for (std::size_t c = 0; c < contexts; ++c) {
      rows_.push_back(random_law((seed << 32) + c, vocab, spread));
    }
  }
  /// The same law after any history.
  explicit MarkovTable(std::vector<double> probabilities)
      : vocab_(probabilities.size()), order_(0) {
    rows_.push_back(law_of(std::move(probabilities)));
  }

  /// `other` with normal noise of standard deviation `spread` on its log-weights, divided by
  /// `temperature`.
  static MarkovTable near(const MarkovTable& other, std::uint64_t seed, float spread,
                          float temperature = 1.0F) {
    MarkovTable table(other.vocab_, other.order_);
    for (const OwnedLaw& row : other.rows_) {
      std::vector<float> w = random_weights((seed << 32) + table.rows_.size(), row.size(), spread);
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] = (w[i] + row.law().log_weights()[i]) / temperature;
      }
      table.rows_.emplace_back(std::move(w));
    }
    return table;
  }

  std::size_t vocab() const noexcept { return vocab_; }
  /// The conditional after `history`; tokens before its start count as 0.
  const Categorical& after(std::span<const Token> history) const {
    std::size_t context = 0;
    for (std::size_t i = 0; i < order_; ++i) {
      const bool inside = i < history.size();
      const auto t = inside ? static_cast<std::size_t>(history[history.size() - 1 - i]) : 0;
      context = context * vocab_ + t;
    }
    return rows_[context];
  }

  /// Probability of each of the vocab^length continuations of `prompt`, the first token slowest.
  std::vector<double> continuations(std::span<const Token> prompt, std::size_t length) const {
    std::vector<double> law;
    std::vector<Token> history(prompt.begin(), prompt.end());
    walk(history, length, 1.0, law);
    return law;
  }

 private:
  MarkovTable(std::size_t vocab, std::size_t order) : vocab_(vocab), order_(order) {}
  void walk(std::vector<Token>& history, std::size_t left, double p,
            std::vector<double>& law) const {
    if (left == 0) {
      law.push_back(p);
      return;
    }
    for (const double next : exact_probabilities(after(history))) {
      const auto digit = static_cast<Token>(law.size() / power(left - 1) % vocab_);
      history.push_back(digit);
      walk(history, left - 1, p * next, law);
      history.pop_back();
    }
  }
  std::size_t power(std::size_t n) const { return n == 0 ? 1 : vocab_ * power(n - 1); }

  std::size_t vocab_, order_;
  std::vector<OwnedLaw> rows_;
};

/// The cell of `MarkovTable::continuations` of `outputs`.
inline std::size_t cell_of(std::span<const Token> outputs, std::size_t vocab) {
  std::size_t cell = 0;
  for (const Token t : outputs) cell = cell * vocab + static_cast<std::size_t>(t);
  return cell;
}

/// A target without a model. Also counts its calls.
class ToyTarget {
 public:
  struct Verified {
    std::vector<std::vector<TokenLaw>> laws;
    const TokenLaw& at(std::size_t sequence, std::size_t step) const {
      return laws[sequence].at(step);
    }
  };

  explicit ToyTarget(const MarkovTable& table, bool greedy = false)
      : table_(&table), greedy_(greedy) {}

  Verified verify(std::span<TokenSequence* const> sequences,
                  const std::vector<TokenDraft>& drafts) {
    Verified verified;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      done_sequences_verified += sequences[i]->done() ? 1 : 0;
      std::vector<Token> history(sequences[i]->tokens().begin(), sequences[i]->tokens().end());
      std::vector<TokenLaw> laws = {law_after(history)};
      for (const Token t : drafts[i].tokens) {
        history.push_back(t);
        laws.push_back(law_after(history));
      }
      verified.laws.push_back(std::move(laws));
    }
    ++passes;
    return verified;
  }
  void keep(std::span<TokenSequence* const>, const std::vector<TokenDraft>&,
            std::span<const Outcome> outcomes) {
    for (const Outcome& o : outcomes) kept += o.emitted;
  }

  std::uint64_t passes = 0;
  std::uint64_t kept = 0;  ///< outputs whose state it was asked to keep
  std::uint64_t done_sequences_verified = 0;

 private:
  TokenLaw law_after(std::span<const Token> history) const {
    const Categorical& law = table_->after(history);
    if (greedy_) return PointMass{law.argmax()};
    return law;
  }
  const MarkovTable* table_;
  bool greedy_;
};

/// Drafts from a table of its own: sampled, searched (its argmax) or chosen (the argmax, unscored).
class ToyDrafter {
 public:
  using Length = std::function<std::size_t(const TokenSequence&)>;

  ToyDrafter(const MarkovTable& table, Origin origin, Length length)
      : table_(&table), origin_(origin), length_(std::move(length)) {}

  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences) const {
    std::vector<TokenDraft> drafts;
    for (const TokenSequence* sequence : sequences) drafts.push_back(draft_for(*sequence));
    return drafts;
  }
  void observe(std::span<TokenSequence* const>, const std::vector<TokenDraft>&,
               const ToyTarget::Verified&, std::span<const Outcome> outcomes) {
    for (const Outcome& o : outcomes) accepted += o.accepted;
  }

  std::uint64_t accepted = 0;

 private:
  TokenDraft draft_for(const TokenSequence& sequence) const {
    TokenDraft draft{.origin = origin_};
    std::vector<Token> history(sequence.tokens().begin(), sequence.tokens().end());
    for (std::size_t n = length_(sequence); draft.size() < n;) {
      const Categorical& law = table_->after(history);
      const double u = sequence.key_at(history.size()).uniform(Purpose::kDraft);
      const Token t = origin_ == Origin::kSampled ? law.sample(u) : law.argmax();
      draft.tokens.push_back(t);
      if (origin_ != Origin::kChosen) draft.laws.push_back(law);
      history.push_back(t);
    }
    return draft;
  }
  const MarkovTable* table_;
  Origin origin_;
  Length length_;
};

/// Always `n` drafts.
inline ToyDrafter::Length always(std::size_t n) {
  return [n](const TokenSequence&) { return n; };
}

/// Runs `chains` sequences of `length` outputs after `prompt`, requests 0, 1, ... in batches of 50,
/// and counts the continuations.
template <class Drafter, class Rule, class... Observers>
std::vector<std::size_t> continuation_counts(const MarkovTable& table, Drafter& drafter,
                                             const Rule& rule, std::uint32_t chains,
                                             std::size_t length, Observers&... observers) {
  constexpr std::uint32_t kBatch = 50;
  constexpr std::uint64_t kSeed = 20;
  ToyTarget target(table);
  std::size_t cells = 1;
  for (std::size_t i = 0; i < length; ++i) cells *= table.vocab();
  std::vector<std::size_t> counts(cells, 0);
  for (std::uint32_t first = 0; first < chains; first += kBatch) {
    std::vector<TokenSequence> sequences;
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      sequences.emplace_back(kSeed, first + i, std::vector<Token>{0, 0}, length);
    }
    speculate<TokenSequence>(
        sequences, target, drafter, rule, [] { return true; }, observers...);
    for (const TokenSequence& sequence : sequences)
      ++counts[cell_of(sequence.outputs(), table.vocab())];
  }
  return counts;
}

}  // namespace forerun::support
