#include "forerun/methods/sam/context_order.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

// Places [first, last) of the order, equal in all that was compared.
struct Group {
  std::uint32_t first, last;
};

class ContextSort {
 public:
  explicit ContextSort(std::span<const Token> text)
      : order_(text.size()), rank_(text.size()), next_(text.size()) {}

  // Document starts differ from each other, so that no comparison goes beyond one.
  void by_token(std::span<const Token> text, std::size_t vocab) {
    std::vector<std::uint32_t> first(vocab + 2);
    for (const Token t : text) ++first[static_cast<std::size_t>(t + 1) + 1];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    const std::vector<std::uint32_t> begin = first;
    for (std::uint32_t place = 0; place < text.size(); ++place) {
      const Token next = text[place] + 1;  // from 0 on
      const auto key = static_cast<std::size_t>(next);
      const std::uint32_t at = first[key]++;
      order_[at] = place;
      rank_[place] = key == 0 ? at : begin[key];
    }
    for (std::size_t key = 1; key + 1 < begin.size(); ++key)
      keep({begin[key], begin[key + 1]}, groups_);
  }

  // Groups are equal in `known` tokens; afterwards in twice as many. All are sorted by the ranks
  // from before, so that threads take them in any order.
  void refine(std::uint32_t known) {
    const std::vector<Group> groups = std::exchange(groups_, {});
    const auto size = static_cast<std::int64_t>(groups.size());
    std::vector<std::vector<Group>> found;  // by each thread
    found.reserve(static_cast<std::size_t>(at::get_num_threads()));
    std::mutex together;
    ThreadTeam::instance().run(at::get_num_threads(), [&](ThreadTeam::Worker& w) {
      Split split;
      w.each(size, kGroups, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          sort(groups[static_cast<std::size_t>(i)], known, split);
        }
      });
      w.each(size, kGroups, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t g = begin; g < end; ++g) {
          const Group& group = groups[static_cast<std::size_t>(g)];
          for (std::uint32_t i = group.first; i < group.last; ++i) rank_[order_[i]] = next_[i];
        }
      });
      const std::scoped_lock lock(together);
      found.push_back(std::move(split.groups));
    });
    for (const std::vector<Group>& some : found) {
      groups_.insert(groups_.end(), some.begin(), some.end());
    }
  }

  bool sorted() const noexcept { return groups_.empty(); }
  HugeVector<std::uint32_t> take() { return std::move(order_); }

 private:
  static constexpr std::int64_t kGroups = 256;  // that a thread takes at a time

  // What a thread makes of its groups.
  struct Split {
    std::vector<Group> groups;  // of two or more
    std::vector<std::uint64_t> keyed;
  };

  static void keep(Group group, std::vector<Group>& groups) {
    if (group.last - group.first > 1) groups.push_back(group);
  }

  void sort(Group group, std::uint32_t known, Split& split) {
    std::vector<std::uint64_t>& keyed = split.keyed;
    keyed.clear();
    for (std::uint32_t i = group.first; i < group.last; ++i) {
      keyed.push_back(std::uint64_t{rank_[order_[i] - known]} << 32U | order_[i]);
    }
    std::sort(keyed.begin(), keyed.end());
    std::uint32_t first = group.first;
    for (std::uint32_t i = group.first; i < group.last; ++i) {
      const std::uint64_t key = keyed[i - group.first];
      if (i > group.first && key >> 32U != keyed[i - group.first - 1] >> 32U) {
        keep({first, i}, split.groups);
        first = i;
      }
      order_[i] = static_cast<std::uint32_t>(key);
      next_[i] = first;
    }
    keep({first, group.last}, split.groups);
  }

  HugeVector<std::uint32_t> order_;
  HugeVector<std::uint32_t> rank_;  // of a place: the first of its group
  HugeVector<std::uint32_t> next_;  // of a place in order: its rank after the groups are sorted
  std::vector<Group> groups_;       // of two or more
};

}  // namespace

HugeVector<std::uint32_t> context_order(std::span<const Token> text, std::size_t vocab,
                                        std::size_t depth) {
  ContextSort sort(text);
  sort.by_token(text, vocab);
  for (std::size_t known = 1; known < depth && !sort.sorted(); known *= 2) {
    sort.refine(static_cast<std::uint32_t>(known));
  }
  return sort.take();
}

}  // namespace forerun
