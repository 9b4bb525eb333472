#include "forerun/formats/tokenizer/internal/sentencepiece.h"

#include <cstddef>
#include <queue>
#include <unordered_map>
#include <utility>

#include "forerun/base/utf8.h"

namespace forerun::internal {
namespace {

constexpr std::size_t kNoPiece = static_cast<std::size_t>(-1);

struct Piece {
  std::string_view text;  // empty: merged into the one before
  std::size_t before, after;
  bool frozen;  // a user-defined piece: never merged
};

struct PiecePair {
  float score;
  std::size_t left, right;
  std::size_t size;  // bytes of both when offered; another size means the pair has changed
  bool operator<(const PiecePair& other) const {  // std::priority_queue hands out the largest
    return score != other.score ? score < other.score : left > other.left;
  }
};

class Sentence {
 public:
  Sentence(const TokenizerData& data, std::string_view text) : data_(data) {
    while (!text.empty()) {
      const auto user = data.user_defined.longest_prefix(text);
      const std::size_t size = user ? user->size : first_char(text).size;
      symbols_.push_back(
          {text.substr(0, size), symbols_.size() - 1, symbols_.size() + 1, user.has_value()});
      text.remove_prefix(size);
    }
    if (symbols_.empty()) return;
    symbols_.front().before = kNoPiece;
    symbols_.back().after = kNoPiece;
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) offer(i, i + 1);
  }

  void merge_all() {
    while (!queue_.empty()) {
      const PiecePair best = queue_.top();
      queue_.pop();
      Piece& left = symbols_[best.left];
      Piece& right = symbols_[best.right];
      if (left.text.empty() || right.text.empty() ||
          left.text.size() + right.text.size() != best.size)
        continue;
      left.text = {left.text.data(), best.size};  // neighbours lie next to each other in the text
      left.after = right.after;
      right.text = {};
      if (left.after != kNoPiece) symbols_[left.after].before = best.left;
      offer(left.before, best.left);
      offer(best.left, left.after);
    }
  }

  // The pieces in order. Unused ones serve as steps of merging only: here they are taken apart
  // again.
  std::vector<std::string_view> pieces() const {
    std::vector<std::string_view> out, todo;
    for (const Piece& s : symbols_) {
      if (!s.text.empty()) todo.push_back(s.text);
      while (!todo.empty()) {
        const std::string_view piece = todo.back();
        todo.pop_back();
        const Token id = data_.find(piece);
        const bool unused = id != kNoToken && data_.is(id, TokenType::kUnused);
        const auto halves = unused ? halves_.find(piece) : halves_.end();
        if (halves == halves_.end()) {
          out.push_back(piece);
        } else {
          todo.push_back(halves->second.second);
          todo.push_back(halves->second.first);
        }
      }
    }
    return out;
  }

 private:
  void offer(std::size_t left, std::size_t right) {
    if (left == kNoPiece || right == kNoPiece) return;
    const Piece &l = symbols_[left], &r = symbols_[right];
    const std::size_t size = l.text.size() + r.text.size();
    if (l.frozen || r.frozen || size > data_.longest_piece) return;
    const std::string_view both(l.text.data(), size);
    const Token id = data_.find(both);
    if (id == kNoToken || !data_.merges_into(id)) return;
    queue_.push({data_.scores[static_cast<std::size_t>(id)], left, right, size});
    if (data_.is(id, TokenType::kUnused)) halves_[both] = {l.text, r.text};
  }

  const TokenizerData& data_;
  std::vector<Piece> symbols_;
  std::priority_queue<PiecePair> queue_;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> halves_;
};

}  // namespace

std::vector<Token> encode_sentencepiece(const TokenizerData& data, std::string_view text) {
  Sentence sentence(data, text);
  sentence.merge_all();
  std::vector<Token> out;
  bool after_unknown = false;
  for (const std::string_view piece : sentence.pieces()) {
    const Token id = data.find(piece);
    const bool known = id != kNoToken && id != data.spec.unknown;
    if (known) {
      out.push_back(id);
    } else if (data.spec.byte_fallback) {
      for (const char byte : piece)
        out.push_back(data.byte_tokens[static_cast<unsigned char>(byte)]);
    } else if (!after_unknown && data.spec.unknown) {
      out.push_back(*data.spec.unknown);
    }
    after_unknown = !known;
  }
  return out;
}

}  // namespace forerun::internal
