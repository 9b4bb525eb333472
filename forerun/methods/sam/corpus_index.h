#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/base/huge_pages.h"
#include "forerun/core/token.h"

namespace forerun {

/// A document of a corpus. Tokens from `first` on are what followed something; those before are
/// only what they followed, such as a prompt.
struct CorpusDocument {
  std::span<const Token> tokens;
  std::size_t first = 0;
};

/// What followed the end of a text wherever that end occurs in a corpus. Immutable: any number of
/// threads may read it.
///
/// The places of the corpus lie in the order of the tokens before them, read backwards, so that
/// the places that end alike are a range, that of a longer end inside that of a shorter one. Ranges
/// of more than kScanned places keep their most frequent followers; smaller ones are counted when
/// they are asked for.
class CorpusIndex {
 public:
  static constexpr std::size_t kLongest = 32;   ///< tokens of an end that are compared, at most
  static constexpr std::size_t kFollowers = 8;  ///< of a range
  static constexpr std::size_t kScanned = 32;
  static constexpr std::size_t kMostTokens = std::size_t{1} << 31;

  /// An end of a text that occurs in the corpus, with something after it: its last `length` tokens.
  struct Match {
    std::size_t length = 0;             ///< 0: no end occurs
    std::uint32_t first = 0, last = 0;  ///< its range of places
    std::uint32_t occurrences() const noexcept { return last - first; }
  };
  struct Follower {
    Token token = 0;
    std::uint32_t count = 0;
  };
  /// What followed a match: the most frequent first, the lower token first among equals.
  struct Followers {
    std::array<Follower, kFollowers> most{};
    std::size_t size = 0;        ///< of `most`
    std::uint32_t distinct = 0;  ///< tokens that followed
    std::span<const Follower> all() const noexcept { return {most.data(), size}; }
  };

  /// Memory: 17 bytes a token, 28 while it is made.
  /// @param order  `order()` of an index of the same documents: they are not sorted again, which is
  ///               most of the time. Empty: they are. It is checked
  /// @throws std::invalid_argument  a token that is negative or not below `vocab`, kMostTokens
  ///                                tokens or more, an order of other documents
  CorpusIndex(std::span<const CorpusDocument> documents, std::size_t vocab,
              std::span<const std::uint32_t> order = {});

  /// Tokens that followed something.
  std::size_t size() const noexcept { return followers_.size(); }
  /// Of every place where its last token lies: in the documents one behind the other, with one
  /// entry before each.
  std::span<const std::uint32_t> order() const noexcept { return ends_; }
  /// The longest end of `text` that occurs, of kLongest tokens at most.
  Match longest(std::span<const Token> text) const;
  /// The next shorter end that occurs at more places; of length 0 at last.
  Match shorter(const Match& match) const;
  Followers followers(const Match& match) const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  // A range of more than kScanned places, the largest of those that end alike so far.
  struct Range {
    std::uint32_t first, last;
    std::uint32_t length;  // tokens that all its places share
    std::uint32_t above;   // the smallest range of more places around it, or kNone
    Followers followers;
  };
  void copy(std::span<const CorpusDocument> documents, std::size_t vocab);
  void take_places(std::span<const CorpusDocument> documents, std::size_t vocab,
                   std::span<const std::uint32_t> order);
  bool compare_neighbours();
  void find_begins(std::size_t vocab);
  void find_ranges();
  void count_ranges(std::size_t vocab);
  std::size_t shared(std::uint32_t place, std::span<const Token> text, std::size_t known) const;
  Match match_of(std::uint32_t place, std::size_t length) const;

  HugeVector<Token> text_;            // the documents, kDocumentStart before each
  HugeVector<std::uint32_t> ends_;    // of a place: index of its last token in text_
  HugeVector<Token> followers_;       // of a place
  HugeVector<std::uint8_t> common_;   // tokens that a place shares with the place before it
  HugeVector<std::uint32_t> begins_;  // of a last token: the first place that ends with it
  HugeVector<Range> ranges_;          // a range behind those around it
  HugeVector<std::uint32_t> around_;  // of a place: the smallest range that holds it, or kNone
};

}  // namespace forerun
