#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::testing {

/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"
/// (SplitMix64).
struct SplitMix64 {
  std::uint64_t state;

  std::uint64_t operator()() noexcept {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// From [0, n), n >= 1; the bias of the remainder does not matter here.
  std::size_t below(std::size_t n) noexcept { return static_cast<std::size_t>((*this)() % n); }
};

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace internal {

/// Sizes and counts that break parsers: ends of integer ranges, and their neighbours.
inline std::uint64_t nasty_integer(SplitMix64& rng) {
  constexpr std::array<std::uint64_t, 16> kEdges{
      0,      1,          2,          7,          31,         0x7f,       0xff,       0x7fff,
      0xffff, 0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 62, 1ull << 63, ~0ull};
  const std::uint64_t edge = kEdges[rng.below(kEdges.size())];
  return edge + rng.below(5) - 2;
}

/// Text with a meaning in JSON, UTF-8 or number parsers.
inline std::string_view nasty_text(SplitMix64& rng) {
  constexpr std::array<std::string_view, 24> kTexts{"[",
                                                    "]",
                                                    "{",
                                                    "}",
                                                    "\"",
                                                    ":",
                                                    ",",
                                                    "\\",
                                                    "\\u0000",
                                                    "\\ud800",
                                                    "null",
                                                    "true",
                                                    "NaN",
                                                    "-1",
                                                    "1e999",
                                                    "0.5",
                                                    "18446744073709551616",
                                                    "-9223372036854775808",
                                                    "\xff",
                                                    "\xc0\x80",
                                                    "\xed\xa0\x80",
                                                    "\xf4\x90\x80\x80",
                                                    "[[[[[[[[[[[[[[[[[[[[",
                                                    "{\"a\":{\"a\":{\"a\":"};
  return kTexts[rng.below(kTexts.size())];
}

inline void replace(Bytes& bytes, std::size_t at, std::size_t length,
                    std::span<const std::byte> by) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const Bytes copy(by.begin(), by.end());  // `by` may lie in `bytes`
  const auto place = bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(length));
  bytes.insert(place, copy.begin(), copy.end());
}

inline void mutate_once(Bytes& bytes, SplitMix64& rng) {
  if (bytes.empty()) bytes.push_back(std::byte{0});
  const std::size_t at = rng.below(bytes.size());
  const std::size_t length = rng.below(std::min<std::size_t>(bytes.size() - at, 64) + 1);
  switch (rng.below(9)) {
    case 0:
      bytes[at] ^= std::byte{1} << rng.below(8);
      break;
    case 1:
      bytes[at] = static_cast<std::byte>(rng());
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      replace(bytes, at, length, {});
      break;
    case 4: {  // a piece of the file somewhere else
      const std::size_t from = rng.below(bytes.size());
      const std::size_t n = rng.below(std::min<std::size_t>(bytes.size() - from, 64) + 1);
      replace(bytes, at, length, std::span(bytes).subspan(from, n));
      break;
    }
    case 5: {
      const std::string_view text = nasty_text(rng);
      replace(bytes, at, rng.below(2) * length, std::as_bytes(std::span(text)));
      break;
    }
    case 6:  // a length field: near the front, where headers are, half of the time
    case 7: {
      const std::size_t width = std::size_t{1} << rng.below(4);
      const std::size_t limit =
          rng.below(2) == 0 ? std::min<std::size_t>(bytes.size(), 128) : bytes.size();
      if (limit < width) break;
      const std::size_t place = rng.below(limit - width + 1);
      const std::uint64_t value = nasty_integer(rng);
      std::memcpy(bytes.data() + place, &value, width);
      break;
    }
    case 8: {  // a nearby number: off by a little
      if (bytes.size() - at < sizeof(std::uint64_t)) break;
      std::uint64_t value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      value += rng.below(65) - 32;
      std::memcpy(bytes.data() + at, &value, sizeof value);
      break;
    }
  }
}

}  // namespace internal

/// A damaged copy of `bytes`: one to four of bit flips, truncation, edited length fields, and
/// pieces cut out, copied or replaced.
inline Bytes mutate(std::span<const std::byte> bytes, SplitMix64& rng) {
  Bytes out(bytes.begin(), bytes.end());
  for (std::size_t i = rng.below(4) + 1; i > 0; --i) internal::mutate_once(out, rng);
  return {out.begin(), out.end()};  // no spare capacity: a sanitizer then sees a read past the end
}

/// Seconds each mutation test runs: FORERUN_FUZZ_SECONDS, 2 where it is not set.
inline double fuzz_seconds() {
  const char* text = std::getenv("FORERUN_FUZZ_SECONDS");
  return text == nullptr ? 2.0 : std::strtod(text, nullptr);
}

/// Calls `use` with mutants of `seeds` in turn for fuzz_seconds(), at least a thousand of them.
/// Mutant i depends on i alone, so a failure can be repeated: `use(mutant, i)`.
template <class Use>
std::uint64_t for_each_mutant(std::span<const Bytes> seeds, Use&& use) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(fuzz_seconds());
  std::uint64_t i = 0;
  for (; i < 1000 || std::chrono::steady_clock::now() < end; ++i) {
    SplitMix64 rng{i * 0x2545f4914f6cdd1du};
    use(mutate(seeds[i % seeds.size()], rng), i);
  }
  return i;
}

}  // namespace forerun::testing
