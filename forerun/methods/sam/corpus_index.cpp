#include "forerun/methods/sam/corpus_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "forerun/methods/sam/context_order.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

// The most frequent of `counted`, which is reordered.
CorpusIndex::Followers most_frequent(std::span<CorpusIndex::Follower> counted) {
  CorpusIndex::Followers out;
  out.distinct = static_cast<std::uint32_t>(counted.size());
  out.size = std::min(counted.size(), CorpusIndex::kFollowers);
  const auto most = counted.begin() + static_cast<std::ptrdiff_t>(out.size);
  std::partial_sort(counted.begin(), most, counted.end(), [](const auto& a, const auto& b) {
    return a.count != b.count ? a.count > b.count : a.token < b.token;
  });
  std::copy(counted.begin(), most, out.most.begin());
  return out;
}

}  // namespace

CorpusIndex::CorpusIndex(std::span<const CorpusDocument> documents, std::size_t vocab,
                         std::span<const std::uint32_t> order) {
  copy(documents, vocab);
  take_places(documents, vocab, order);
  if (!compare_neighbours()) {
    throw std::invalid_argument("corpus: the order is not that of its documents");
  }
  find_begins(vocab);
  find_ranges();
  count_ranges(vocab);
}

void CorpusIndex::copy(std::span<const CorpusDocument> documents, std::size_t vocab) {
  std::size_t total = 0;
  for (const CorpusDocument& d : documents) total += d.tokens.size() + 1;
  if (total >= kMostTokens) {
    throw std::invalid_argument(
        fmt::format("corpus: {} tokens, an index takes less than {}: leave "
                    "documents out",
                    total, kMostTokens));
  }
  text_.reserve(total);
  for (const CorpusDocument& d : documents) {
    text_.push_back(kDocumentStart);
    for (const Token t : d.tokens) {
      if (t < 0 || static_cast<std::size_t>(t) >= vocab) {
        throw std::invalid_argument(fmt::format(
            "corpus: token {}, the vocabulary has {}: it was made by another model", t, vocab));
      }
      text_.push_back(t);
    }
  }
}

// Keeps the places that something follows, each once.
void CorpusIndex::take_places(std::span<const CorpusDocument> documents, std::size_t vocab,
                              std::span<const std::uint32_t> order) {
  std::vector<bool> followed(text_.size());
  std::size_t at = 0, kept = 0;
  for (const CorpusDocument& d : documents) {
    for (std::size_t i = std::max<std::size_t>(d.first, 1); i < d.tokens.size(); ++i, ++kept) {
      followed[at + i] = true;  // the place of token i - 1
    }
    at += d.tokens.size() + 1;
  }
  ends_.reserve(kept);
  const auto take = [&](std::uint32_t end) {
    const bool takes = end < followed.size() && followed[end];
    if (takes) {
      followed[end] = false;
      ends_.push_back(end);
    }
    return takes;
  };
  if (order.empty()) {
    for (const std::uint32_t end : context_order(text_, vocab, kLongest)) take(end);
  } else if (order.size() != kept || !std::all_of(order.begin(), order.end(), take)) {
    throw std::invalid_argument("corpus: the order is that of other documents");
  }
}

// What a place has in common with the one before it. False where that one belongs behind it.
bool CorpusIndex::compare_neighbours() {
  constexpr std::int64_t kGrain = 1 << 14, kAhead = 16;
  const auto size = static_cast<std::int64_t>(ends_.size());
  followers_.resize(ends_.size());
  common_.resize(ends_.size());
  std::atomic<bool> sorted = true;
  parallel_for(0, size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // Places lie anywhere in the text: their tokens are asked for in time.
      if (i + kAhead < size)
        __builtin_prefetch(&text_[ends_[static_cast<std::size_t>(i + kAhead)]]);
      const auto place = static_cast<std::size_t>(i);
      const std::uint32_t own = ends_[place];
      followers_[place] = text_[own + 1];
      if (place == 0) continue;
      const std::uint32_t before = ends_[place - 1];
      std::uint32_t n = 0;
      while (n < kLongest && text_[own - n] != kDocumentStart &&
             text_[own - n] == text_[before - n]) {
        ++n;
      }
      common_[place] = static_cast<std::uint8_t>(n);
      if (n < kLongest && text_[before - n] > text_[own - n]) {
        sorted.store(false, std::memory_order_relaxed);
      }
    }
  });
  return sorted;
}

void CorpusIndex::find_begins(std::size_t vocab) {
  const auto size = static_cast<std::uint32_t>(ends_.size());
  begins_.assign(vocab + 1, size);
  for (std::uint32_t place = 0; place < size; ++place) {
    if (common_[place] == 0) begins_[static_cast<std::size_t>(text_[ends_[place]])] = place;
  }
  // Tokens that no place ends with.
  for (std::size_t t = vocab; t-- > 0;) begins_[t] = std::min(begins_[t], begins_[t + 1]);
}

// The ranges of more than kScanned places, from the common tokens of neighbours (Abouelhoda et al.
// 2004, lcp-intervals).
void CorpusIndex::find_ranges() {
  struct Open {
    std::uint32_t first, length;
  };
  std::vector<Open> open;
  const auto size = static_cast<std::uint32_t>(followers_.size());
  for (std::uint32_t place = 1; place <= size; ++place) {
    const std::uint32_t common = place < size ? common_[place] : 0;
    std::uint32_t first = place - 1;
    while (!open.empty() && open.back().length > common) {
      first = open.back().first;
      if (place - first > kScanned) {
        ranges_.push_back({first, place, open.back().length, kNone, {}});
      }
      open.pop_back();
    }
    if (common > 0 && (open.empty() || open.back().length < common))
      open.push_back({first, common});
  }
  std::reverse(ranges_.begin(), ranges_.end());  // a range is found after those inside it
  around_.assign(size, kNone);
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    ranges_[i].above = around_[ranges_[i].first];
    std::fill(around_.begin() + ranges_[i].first, around_.begin() + ranges_[i].last, i);
  }
}

void CorpusIndex::count_ranges(std::size_t vocab) {
  std::vector<std::uint32_t> counts(vocab, 0);
  std::vector<Follower> counted;
  for (Range& range : ranges_) {
    const auto tokens =
        std::span<const Token>(followers_).subspan(range.first, range.last - range.first);
    for (const Token t : tokens) ++counts[static_cast<std::size_t>(t)];
    counted.clear();
    for (const Token t : tokens) {
      std::uint32_t& count = counts[static_cast<std::size_t>(t)];
      if (count > 0) counted.push_back({t, count});
      count = 0;
    }
    range.followers = most_frequent(counted);
  }
}

// Last tokens that a place has in common with `text`, `known` of them known to be.
std::size_t CorpusIndex::shared(std::uint32_t place, std::span<const Token> text,
                                std::size_t known) const {
  const std::size_t most = std::min(text.size(), kLongest);
  const std::size_t end = ends_[place];
  std::size_t n = known;
  while (n < most && text_[end - n] == text[text.size() - 1 - n]) ++n;
  return n;
}

CorpusIndex::Match CorpusIndex::longest(std::span<const Token> text) const {
  if (text.empty()) return {};
  const Token newest = text.back();
  if (newest < 0 || static_cast<std::size_t>(newest) + 1 >= begins_.size()) return {};
  std::uint32_t low = begins_[static_cast<std::size_t>(newest)];
  std::uint32_t high = begins_[static_cast<std::size_t>(newest) + 1];
  // Places below `low` are before the text in order, places from `high` on behind it.
  Match best;
  std::size_t below = 1, above = 1;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    // Places lie anywhere in memory: those of the next step, whichever half it takes, are asked for
    // while this one waits for its tokens.
    __builtin_prefetch(&ends_[low + (middle - low) / 2]);
    __builtin_prefetch(ends_.data() + middle + 1 + (high - middle - 1) / 2);
    const std::size_t n = shared(middle, text, std::min(below, above));
    if (n > best.length) best = {n, middle, middle};
    if (n == std::min(text.size(), kLongest)) break;
    if (text_[ends_[middle] - n] < text[text.size() - 1 - n]) {
      low = middle + 1;
      below = n;
    } else {
      high = middle;
      above = n;
    }
  }
  return best.length > 0 ? match_of(best.first, best.length) : Match();
}

// All places that share their last `length` tokens with one.
CorpusIndex::Match CorpusIndex::match_of(std::uint32_t place, std::size_t length) const {
  const std::uint32_t inner = around_[place];
  std::uint32_t range = inner;
  while (range != kNone && ranges_[range].length >= length) {
    const std::uint32_t above = ranges_[range].above;
    if (above == kNone || ranges_[above].length < length) {
      return {length, ranges_[range].first, ranges_[range].last};
    }
    range = above;
  }
  std::uint32_t first = place, last = place + 1;
  while (common_[first] >= length) --first;
  while (last < size() && common_[last] >= length) ++last;
  return {length, first, last};
}

CorpusIndex::Match CorpusIndex::shorter(const Match& match) const {
  if (match.length == 0) return {};
  const std::size_t before = common_[match.first];
  const std::size_t behind = match.last < size() ? common_[match.last] : 0;
  const std::size_t length = std::max(before, behind);
  return length > 0 ? match_of(match.first, length) : Match();
}

CorpusIndex::Followers CorpusIndex::followers(const Match& match) const {
  if (match.length == 0) return {};
  if (match.occurrences() > kScanned) {
    std::uint32_t range = around_[match.first];
    while (ranges_[range].last - ranges_[range].first < match.occurrences()) {
      range = ranges_[range].above;
    }
    return ranges_[range].followers;
  }
  std::array<Follower, kScanned> counted;
  std::size_t n = 0;
  for (std::uint32_t place = match.first; place < match.last; ++place) {
    const Token token = followers_[place];
    const auto at = std::find_if(counted.begin(), counted.begin() + n,
                                 [&](const Follower& f) { return f.token == token; });
    if (at == counted.begin() + n) {
      counted[n++] = {token, 1};
    } else {
      ++at->count;
    }
  }
  return most_frequent(std::span(counted).first(n));
}

}  // namespace forerun
