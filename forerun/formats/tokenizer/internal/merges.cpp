#include "forerun/formats/tokenizer/internal/merges.h"

#include <cstddef>
#include <queue>

namespace forerun::internal {
namespace {

constexpr std::size_t kEnd = static_cast<std::size_t>(-1);

struct Symbol {
  Token id;
  std::size_t before, after;  // neighbours in the list, or kEnd
  bool gone;
};

struct Candidate {
  std::uint32_t rank;
  std::size_t at;  // the left symbol
  Token into;
  bool operator<(const Candidate& other) const {  // std::priority_queue hands out the largest
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

class Word {
 public:
  Word(const std::vector<Token>& ids, const MergeTable& table) : table_(table) {
    symbols_.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      symbols_.push_back(
          {ids[i], i == 0 ? kEnd : i - 1, i + 1 == ids.size() ? kEnd : i + 1, false});
    }
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) offer(i);
  }

  void merge_all() {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = symbols_[best.at];
      if (left.gone || left.after == kEnd) continue;
      // The pair may have changed since it was offered.
      const Merge* merge = table_.find(left.id, symbols_[left.after].id);
      if (merge == nullptr || merge->into != best.into) continue;
      join(best.at, best.into);
      if (left.before != kEnd) offer(left.before);
      if (left.after != kEnd) offer(best.at);
    }
  }

  std::vector<Token> ids() const {
    std::vector<Token> out;
    for (const Symbol& s : symbols_) {
      if (!s.gone) out.push_back(s.id);
    }
    return out;
  }

 private:
  void offer(std::size_t at) {
    const Merge* merge = table_.find(symbols_[at].id, symbols_[symbols_[at].after].id);
    if (merge != nullptr) queue_.push({merge->rank, at, merge->into});
  }
  void join(std::size_t at, Token into) {
    Symbol& left = symbols_[at];
    Symbol& right = symbols_[left.after];
    left.id = into;
    left.after = right.after;
    right.gone = true;
    if (right.after != kEnd) symbols_[right.after].before = at;
  }

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<Token> apply_merges(const std::vector<Token>& symbols, const MergeTable& table) {
  if (symbols.size() < 2) return symbols;
  Word word(symbols, table);
  word.merge_all();
  return word.ids();
}

}  // namespace forerun::internal
