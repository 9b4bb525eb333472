#include "forerun/methods/sam/context_order.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

// Places [first, last) of the order, equal in all that was compared.
struct Group {
  std::uint32_t first, last;
};

class ContextSort {
 public:
  explicit ContextSort(std::span<const Token> text) : order_(text.size()), rank_(text.size()) {}

  // Document starts differ from each other, so that no comparison goes beyond one.
  void by_token(std::span<const Token> text, std::size_t vocab) {
    std::vector<std::uint32_t> first(vocab + 2);
    for (const Token t : text) ++first[static_cast<std::size_t>(t + 1) + 1];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    const std::vector<std::uint32_t> begin = first;
    for (std::uint32_t place = 0; place < text.size(); ++place) {
      const auto key = static_cast<std::size_t>(text[place] + 1);
      const std::uint32_t at = first[key]++;
      order_[at] = place;
      rank_[place] = key == 0 ? at : begin[key];
    }
    for (std::size_t key = 1; key + 1 < begin.size(); ++key) keep({begin[key], begin[key + 1]});
  }

  // Groups are equal in `known` tokens; afterwards in twice as many.
  void refine(std::uint32_t known) {
    for (const Group& group : std::exchange(groups_, {})) split(group, known);
  }

  bool sorted() const noexcept { return groups_.empty(); }
  std::vector<std::uint32_t> take() { return std::move(order_); }

 private:
  void keep(Group group) {
    if (group.last - group.first > 1) groups_.push_back(group);
  }

  void split(Group group, std::uint32_t known) {
    keyed_.clear();
    for (std::uint32_t i = group.first; i < group.last; ++i) {
      keyed_.push_back(std::uint64_t{rank_[order_[i] - known]} << 32U | order_[i]);
    }
    std::sort(keyed_.begin(), keyed_.end());
    std::uint32_t first = group.first;
    for (std::uint32_t i = group.first; i < group.last; ++i) {
      const std::uint64_t key = keyed_[i - group.first];
      if (i > group.first && key >> 32U != keyed_[i - group.first - 1] >> 32U) {
        keep({first, i});
        first = i;
      }
      order_[i] = static_cast<std::uint32_t>(key);
      rank_[order_[i]] = first;
    }
    keep({first, group.last});
  }

  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> rank_;  // of a place: the first of its group
  std::vector<Group> groups_;        // of two or more
  std::vector<std::uint64_t> keyed_;
};

}  // namespace

std::vector<std::uint32_t> context_order(std::span<const Token> text, std::size_t vocab,
                                         std::size_t depth) {
  ContextSort sort(text);
  sort.by_token(text, vocab);
  for (std::size_t known = 1; known < depth && !sort.sorted(); known *= 2) {
    sort.refine(static_cast<std::uint32_t>(known));
  }
  return sort.take();
}

}  // namespace forerun
