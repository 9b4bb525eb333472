#pragma once

#include <cstdint>
#include <vector>

#include "forerun/engine/text.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {

/// One pass of the target over rows of several texts: verifying rows, and pieces of prompts.
class TextPass {
 public:
  /// The verifying rows of a text: its newest token and its draft, and what its drafter adds.
  void verify(Text& text, const TokenDraft& draft, const CompanionRows& companions = {});
  /// The next `tokens` unread tokens of a text.
  void read(Text& text, std::int64_t tokens);

  std::int64_t rows() const noexcept { return rows_; }
  /// Bytes of KV memory that the pass takes beyond what its texts hold.
  std::size_t bytes() const;
  /// Leaves out the companion rows of the last text that has some.
  /// @return  false: none has
  bool drop_companions();
  /// Takes a text out again.
  void drop(const Text& text);

  void run(const DecoderLm& model);

  double seconds() const noexcept { return seconds_; }
  /// The part of them that belongs to pieces of prompts, by rows.
  double reading_seconds() const;
  /// Keeps the rows of a text that became part of it: its newest token and the accepted drafts.
  /// Keys, values and hidden states of the others are dropped.
  void keep(Text& text, const Outcome& outcome);
  /// The verified rows of a text, for VerifiedTokens with `logits()`.
  /// @param draft  as given to `verify`; outlives the result
  VerifiedRows verified(const Text& text, const TokenDraft& draft) const;
  const at::Tensor& logits() const noexcept { return logits_; }

  struct Piece {
    Text* text = nullptr;
    std::int64_t rows = 0;
    double seconds = 0.0;
  };
  /// All texts of the pass.
  std::vector<Text*> texts() const;
  /// The prompt pieces that were read.
  std::vector<Piece> pieces() const;
  /// Hidden states of the rows of a text, as its drafter expects them.
  HiddenStates states(const Text& text) const;

 private:
  struct Item {
    Text* text;
    std::vector<Token> tokens;
    std::vector<std::int32_t> parents;                            // of a tree, or with companions
    std::int64_t scored;                                          // 0: a piece of a prompt
    std::int64_t first;                                           // position of the first row
    std::int64_t before = 0;                                      // rows before the draft
    CompanionRows companions;                                     // the last rows
    std::vector<std::int32_t> skips, groups, scored_rows, masks;  // with companions
    bool greedy = false;                                          // as SequenceSpan
    std::int64_t first_logits = 0;
    std::vector<float> states;    // [rows, all blocks * hidden]
    std::vector<float> gathered;  // [rows, the drafter's blocks * hidden], if they are not all
  };
  const Item& item_of(const Text& text) const;
  static void add(Item& item, const CompanionRows& companions);
  RowPlan plan_of(const Item& item) const;
  void gather(Item& item, std::int64_t hidden) const;

  std::vector<Item> items_;
  std::vector<std::int64_t> kept_;  // blocks whose output some drafter reads
  std::int64_t rows_ = 0, hidden_ = 0;
  double seconds_ = 0.0;
  at::Tensor logits_;
};

}  // namespace forerun
