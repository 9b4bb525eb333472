#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

struct XXH3_state_s;

namespace forerun {

/// XXH3 (64 bits) of a stream of bytes: tells data apart, not adversaries. Memory speed.
class Hash {
 public:
  Hash();
  Hash& add(std::span<const std::byte> bytes);
  /// A text with its length, so that no two lists of texts are the same stream.
  Hash& add(std::string_view text);
  template <std::integral T>
  Hash& add(T number) {
    const auto wide = static_cast<std::uint64_t>(number);
    return add(std::as_bytes(std::span(&wide, 1)));
  }
  /// Numbers, or bytes, with their count.
  template <class Range>
  Hash& add_all(const Range& range) {
    const std::span all(range);
    static_assert(std::is_trivially_copyable_v<typename decltype(all)::value_type>);
    return add(all.size()).add(std::as_bytes(all));
  }

  std::uint64_t value() const noexcept;
  /// Sixteen hexadecimal digits.
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace forerun
