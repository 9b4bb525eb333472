#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/core/speculate.h"
#include "forerun/methods/text/text_drafter.h"
#include "tests/support/laws.h"

/// The law of whole texts of a drafter, sampled round by round, beside the law of the target by
/// enumeration.
namespace forerun::support {

/// A target of few tokens whose logits are a fixed function of the last two tokens, and of a place
/// for rows of masks.
class TableTarget {
 public:
  TableTarget(std::uint64_t seed, std::size_t vocab, double spread)
      : seed_(seed), vocab_(vocab), spread_(spread) {}
  std::size_t vocab() const noexcept { return vocab_; }

  /// @param place  0 the law of the next token; above, what mask rows predict that far ahead
  std::vector<float> logits(std::span<const Token> text, std::uint32_t place = 0) const {
    std::vector<float> out(vocab_);
    const auto newest = static_cast<std::uint32_t>(text.back());
    const auto before = static_cast<std::uint32_t>(text.size() > 1 ? text[text.size() - 2] : 0);
    RngKey{.seed = seed_, .request = newest, .round = before, .position = place}.fill_normal(
        Purpose::kDraft, out);
    for (float& x : out) x *= static_cast<float>(spread_);
    return out;
  }

  /// P of each continuation of `length` tokens, as a number of base vocab, the first token first.
  std::vector<double> law(std::vector<Token> text, std::size_t length) const {
    std::vector<double> out;
    append_law(text, length, 1.0, out);
    return out;
  }

 private:
  void append_law(std::vector<Token>& text, std::size_t length, double p,
                  std::vector<double>& out) const {
    if (length == 0) {
      out.push_back(p);
      return;
    }
    const std::vector<double> next = exact_probabilities(logits(text));
    for (std::size_t t = 0; t < vocab_; ++t) {
      text.push_back(static_cast<Token>(t));
      append_law(text, length - 1, p * next[t], out);
      text.pop_back();
    }
  }

  std::uint64_t seed_;
  std::size_t vocab_;
  double spread_;
};

/// How texts are sampled.
struct TextLawRun {
  Rule rule = Rule::kMaximal;
  std::vector<Token> prompt = {0, 1};
  std::size_t length = 4;    ///< outputs
  std::size_t together = 3;  ///< texts in a round
  std::uint64_t seed = 1;
  double row_seconds = 0.0;  ///< of a row more, of a pass
  /// Whether a pass has room for the companion rows.
  std::function<bool(std::uint32_t pass)> has_room = [](std::uint32_t) { return true; };
};

/// What came of it.
struct TextLawSeen {
  std::vector<std::size_t> counts;  ///< of the cells of TableTarget::law
  std::size_t drafted = 0, accepted = 0, rounds = 0;
  std::vector<std::size_t> lengths = std::vector<std::size_t>(16);  ///< rounds by drafts
  std::size_t companions = 0;
};

class TextLaw {
 public:
  TextLaw(const TableTarget& target, TextDrafter& drafter, TextLawRun run)
      : target_(target), drafter_(drafter), run_(std::move(run)) {}

  TextLawSeen sample(std::uint32_t texts) {
    std::size_t cells = 1;
    for (std::size_t i = 0; i < run_.length; ++i) cells *= target_.vocab();
    seen_.counts.assign(cells, 0);
    for (std::uint32_t first = 0; first < texts;
         first += static_cast<std::uint32_t>(run_.together)) {
      std::vector<std::unique_ptr<TokenSequence>> group;
      for (std::uint32_t i = 0; i < run_.together && first + i < texts; ++i) {
        // Some begin later and others end earlier than their neighbours.
        group.push_back(std::make_unique<TokenSequence>(
            run_.seed, first + i, run_.prompt, run_.length, TokenSequence::Ends(),
            TokenSettings{.sampling = {.temperature = 1.0}, .rule = run_.rule}));
      }
      while (round(group)) {
      }
      for (const auto& sequence : group) {
        std::size_t cell = 0;
        for (const Token t : sequence->outputs()) {
          cell = cell * target_.vocab() + static_cast<std::size_t>(t);
        }
        ++seen_.counts.at(cell);
        drafter_.forget(sequence->id());
      }
    }
    return seen_;
  }

 private:
  static std::vector<Token> path_to(std::span<const Token> text, const TokenDraft& draft,
                                    const CompanionRows* rows, std::int32_t at) {
    std::vector<Token> way;
    const auto drafted = static_cast<std::int32_t>(draft.size());
    while (at >= 0) {
      const auto i = static_cast<std::size_t>(at);
      const bool companion = at >= drafted;
      if (!companion) way.push_back(draft.tokens[i]);
      at = companion ? rows->parents[i - draft.size()] : draft.parent(i);
    }
    std::vector<Token> out(text.begin(), text.end());
    out.insert(out.end(), way.rbegin(), way.rend());
    return out;
  }

  // The logits of one text in a pass, as rows.
  void score(std::span<const Token> text, const TokenDraft& draft, const CompanionRows* rows,
             std::vector<std::vector<float>>& out) const {
    for (std::int32_t i = -1; i < static_cast<std::int32_t>(draft.size()); ++i) {
      out.push_back(target_.logits(path_to(text, draft, nullptr, i)));
    }
    if (rows == nullptr) return;
    for (const std::int32_t r : rows->scored) {
      std::uint32_t place = 1;
      for (std::int32_t p = rows->parents[static_cast<std::size_t>(r)];
           p >= static_cast<std::int32_t>(draft.size());
           p = rows->parents[static_cast<std::size_t>(p) - draft.size()]) {
        ++place;
      }
      out.push_back(target_.logits(
          path_to(text, draft, rows, r + static_cast<std::int32_t>(draft.size())), place));
    }
  }

  bool round(std::vector<std::unique_ptr<TokenSequence>>& group) {
    std::vector<TokenSequence*> active;
    for (const auto& sequence : group) {
      if (!sequence->done()) active.push_back(sequence.get());
    }
    if (active.empty()) return false;
    const std::vector<TokenDraft> drafts = drafter_.propose(active, 0);
    const bool room = run_.has_room(pass_++);
    const std::span<const CompanionRows> companions = drafter_.companions();
    std::vector<std::vector<float>> logits;
    std::vector<VerifiedRows> rows;
    std::size_t ran = 0;
    for (std::size_t i = 0; i < active.size(); ++i) {
      const CompanionRows* own =
          room && !companions.empty() && !companions[i].empty() ? &companions[i] : nullptr;
      rows.push_back({.first = static_cast<std::int64_t>(logits.size()),
                      .count = static_cast<std::int64_t>(drafts[i].size()) + 1,
                      .sampling = active[i]->sampling(),
                      .changed = active[i]->changed(),
                      .draft = &drafts[i]});
      score(active[i]->tokens(), drafts[i], own, logits);
      if (own == nullptr) continue;
      rows.back().companions = static_cast<std::int64_t>(own->scored.size());
      rows.back().companion_rows = static_cast<std::int64_t>(own->rows());
      ran += own->rows();
    }
    couple(active, drafts, logits, std::move(rows), ran);
    return true;
  }

  void couple(std::span<TokenSequence* const> active, const std::vector<TokenDraft>& drafts,
              const std::vector<std::vector<float>>& logits, std::vector<VerifiedRows> rows,
              std::size_t ran) {
    at::Tensor all = at::empty(
        {static_cast<std::int64_t>(logits.size()), static_cast<std::int64_t>(target_.vocab())});
    for (std::size_t i = 0; i < logits.size(); ++i) {
      std::copy(logits[i].begin(), logits[i].end(),
                row_of(all, static_cast<std::int64_t>(i)).begin());
    }
    const VerifiedTokens verified(all, std::move(rows));
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < active.size(); ++i) {
      outcomes.push_back(resolve(*active[i], i, verified, drafts[i], TokenRule(run_.rule)));
      seen_.drafted += drafts[i].size();
      seen_.accepted += outcomes.back().accepted;
      ++seen_.lengths.at(drafts[i].size());
      ++seen_.rounds;
    }
    seen_.companions += ran;
    // Cheap and expensive rows in turn, so that plans vary with past rounds.
    const double row = run_.row_seconds * (pass_ / 512 % 2 == 0 ? 1.0 : 8.0);
    const Timings seconds{.drafter = 1e-6,
                          .target = 0.01 * (1.0 + row * static_cast<double>(logits.size())),
                          .rest = 1e-6};
    const TextRound round{active, drafts, verified, outcomes, seconds};
    drafter_.observe(round);
    drafter_.learn(round, seconds, 0);
  }

  const TableTarget& target_;
  TextDrafter& drafter_;
  TextLawRun run_;
  TextLawSeen seen_;
  std::uint32_t pass_ = 0;
};

}  // namespace forerun::support
