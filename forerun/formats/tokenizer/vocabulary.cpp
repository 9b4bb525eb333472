#include "forerun/formats/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "forerun/base/hash.h"
#include "forerun/base/quote.h"

namespace forerun {
namespace {

// Entries of both, and how their first ones differ; empty if they do not.
struct Comparison {
  std::size_t both = 0;
  std::string difference;
};

Comparison compare(const Tokenizer& a, const Tokenizer& b, std::size_t shown) {
  const std::size_t both = std::min(a.vocab_size(), b.vocab_size());
  std::size_t differing = 0;
  std::string first;
  for (std::size_t i = 0; i < both; ++i) {
    const auto id = static_cast<Token>(i);
    // By text alone: two files of one model may disagree on which tokens are control tokens.
    if (a.name(id) == b.name(id)) continue;
    if (differing < shown) {
      first += fmt::format("{}id {} {} / {}", first.empty() ? "" : ", ", id, quote(a.name(id)),
                           quote(b.name(id)));
    }
    ++differing;
  }
  if (differing == 0) return {both, {}};
  return {both, fmt::format("{} of the first {} ids differ: {}{}", differing, both, first,
                            differing > shown ? ", ..." : "")};
}

std::string sizes(const Tokenizer& a, const Tokenizer& b) {
  return fmt::format("vocabularies differ: {} and {} entries", a.vocab_size(), b.vocab_size());
}

}  // namespace

std::optional<std::string> vocabulary_difference(const Tokenizer& a, const Tokenizer& b,
                                                 std::size_t shown) {
  const Comparison found = compare(a, b, shown);
  if (!found.difference.empty()) return sizes(a, b) + "; " + found.difference;
  if (a.vocab_size() == b.vocab_size()) return std::nullopt;
  return sizes(a, b) + fmt::format("; the first {} agree", found.both);
}

std::optional<std::string> missing_of(const Tokenizer& a, const Tokenizer& other,
                                      std::size_t shown) {
  const bool whole = other.vocab_size() >= a.vocab_size();
  if (whole && compare(a, other, shown).difference.empty()) return std::nullopt;
  return vocabulary_difference(a, other, shown);
}

std::string vocabulary_hash(const Tokenizer& tokenizer) {
  Hash hash;
  for (std::size_t i = 0; i < tokenizer.vocab_size(); ++i) {
    hash.add(tokenizer.name(static_cast<Token>(i)));
  }
  return hash.text();
}

}  // namespace forerun
