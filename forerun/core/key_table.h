#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace forerun {

/// Values by 64-bit keys other than 0, side by side in memory: a look-up touches one or two cache
/// lines. Nothing is removed. Open addressing with linear probing, at most half full.
template <class Value>
class KeyTable {
 public:
  KeyTable() : places_(kFirst) {}

  std::size_t size() const noexcept { return size_; }
  /// Null: the key is not there.
  const Value* find(std::uint64_t key) const noexcept {
    const Place& place = places_[place_of(key)];
    return place.key == key ? &place.value : nullptr;
  }
  Value* find(std::uint64_t key) noexcept {
    return const_cast<Value*>(std::as_const(*this).find(key));
  }
  /// Inserted as Value{} if it is not there.
  Value& operator[](std::uint64_t key) {
    std::size_t at = place_of(key);
    if (places_[at].key == 0) {
      if (2 * (size_ + 1) > places_.size()) {
        grow();
        at = place_of(key);
      }
      ++size_;
      places_[at].key = key;
    }
    return places_[at].value;
  }
  /// Calls `each(key, value)` for all, in no order.
  template <class Each>
  void for_each(Each&& each) const {
    for (const Place& place : places_) {
      if (place.key != 0) each(place.key, place.value);
    }
  }

 private:
  static constexpr std::size_t kFirst = 64;  // places, a power of two
  struct Place {
    std::uint64_t key = 0;
    Value value{};
  };

  // Where the key is, or where it would be put.
  std::size_t place_of(std::uint64_t key) const noexcept {
    // The high bits of the product depend on all bits of the key.
    std::size_t at = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 20);
    for (;; ++at) {
      const std::uint64_t there = places_[at & (places_.size() - 1)].key;
      if (there == key || there == 0) return at & (places_.size() - 1);
    }
  }
  void grow() {
    std::vector<Place> old(2 * places_.size());
    old.swap(places_);
    for (Place& place : old) {
      if (place.key != 0) places_[place_of(place.key)] = std::move(place);
    }
  }

  std::vector<Place> places_;
  std::size_t size_ = 0;
};

}  // namespace forerun
