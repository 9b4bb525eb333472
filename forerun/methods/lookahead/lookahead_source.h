#pragma once

#include <any>
#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/lookahead/lookahead_window.h"
#include "forerun/methods/lookahead/ngram_pool.h"
#include "forerun/methods/tree/companion_worth.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// Lookahead decoding: the target itself makes n-grams, by Jacobi iterations over a window of
/// guesses in rows that it adds to the verifying pass; those that begin with the text's last token,
/// or with a drafted one, are drafts. No model. The window runs where the outputs that its n-grams
/// alone brought in are worth its rows, and now and then to find out.
/// Source: Fu et al. 2024, arXiv:2402.02057; here n-grams are branches of one tree beside other
/// sources, ranked by how often such ones were right.
class LookaheadSource final : public TreeSource {
 public:
  struct Options {
    std::size_t columns = 5;  ///< W: of the window, at least 1
    std::size_t ngram = 4;    ///< N: tokens, 2 to kMostNgram
    std::size_t pool = 7;     ///< G: n-grams that begin with one token
  };
  static constexpr std::size_t kMostNgram = 8;

  LookaheadSource() : LookaheadSource(Options{}) {}
  /// @throws std::invalid_argument  options out of range
  explicit LookaheadSource(const Options& options);

  HitRates rates() const override;
  void remember(std::any& memory) override;
  bool begin(const TokenSequence& sequence) override;
  void add(std::size_t parent, Token token) override;
  void children(std::vector<TreeChild>& out) override;
  void companions(const TokenSequence& sequence, const TokenDraft& draft, const RowOffer& offer,
                  CompanionRows& rows) override;
  void earned(SequenceId id) override;
  void spent(SequenceId id, double outputs) override;
  void observe(const VerifiedDraft& verified) override;
  void forget(SequenceId id) override { texts_.erase(id); }

 private:
  // What is kept between texts.
  struct Memory {
    NgramPool pool;
    CompanionWorth worth;        // of a window
    CompanionWorth::Text texts;  // all, as they share the pool
  };
  struct Text {
    LookaheadWindow window;
    bool asked = false;  // its rows are in the coming pass
  };
  struct Match {
    const std::vector<Token>* next;
    std::size_t used, rank;  // tokens on the path; age among those of the key
  };
  struct Node {
    std::vector<Match> matches;
  };
  Memory& memory();
  Text& text_of(SequenceId id);
  void match(Token key, Node& node) const;

  Options options_;
  std::any own_;
  Memory* memory_ = nullptr;
  std::unordered_map<SequenceId, Text> texts_;
  std::vector<Node> nodes_;  // of the tree that grows
};

}  // namespace forerun
