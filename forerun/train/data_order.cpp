#include "forerun/train/data_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "forerun/core/philox.h"

namespace forerun {
namespace {

// Two uses of one seed never share numbers.
enum Use : std::uint32_t { kOrder = 0x7261696EU, kEpoch = 0x65706F63U };

std::uint64_t random_word(std::uint64_t seed, std::int64_t epoch, std::uint64_t index, Use use) {
  const auto words =
      philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                  static_cast<std::uint32_t>(epoch), use},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return std::uint64_t{words[0]} << 32 | words[1];
}

// Uniform on [0, n) but for a bias below n / 2^64.
std::uint64_t below(std::uint64_t n, std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{word} * n >> 64);
}

}  // namespace

DataOrder::DataOrder(std::size_t size, std::size_t batch, std::uint64_t seed)
    : size_(size),
      steps_per_epoch_(static_cast<std::int64_t>(size / batch + (size % batch != 0 ? 1 : 0))),
      seed_(seed) {}

DataOrder::Batch DataOrder::of_step(std::int64_t step) {
  const std::int64_t epoch = (step - 1) / steps_per_epoch_;
  if (epoch != epoch_) {
    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (std::size_t i = size_; i > 1; --i) {  // Fisher and Yates
      std::swap(order_[i - 1], order_[below(i, random_word(seed_, epoch, i, kOrder))]);
    }
    epoch_ = epoch;
  }
  const auto steps = static_cast<std::size_t>(steps_per_epoch_);
  const auto i = static_cast<std::size_t>((step - 1) % steps_per_epoch_);
  const std::size_t begin = i * size_ / steps, end = (i + 1) * size_ / steps;
  return {random_word(seed_, epoch, 0, kEpoch), std::span(order_).subspan(begin, end - begin)};
}

std::span<const std::size_t> part_of(std::span<const std::size_t> items, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
  const std::size_t share = items.size() / n, extra = items.size() % n;
  const std::size_t begin = r * share + std::min(r, extra);
  return items.subspan(begin, share + (r < extra ? 1 : 0));
}

}  // namespace forerun
