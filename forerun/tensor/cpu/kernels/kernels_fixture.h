#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "forerun/tensor/cpu/kernels/variants.h"

namespace forerun {

namespace scalar {
extern const Kernels kKernels;  // kernels_test.cpp
}

/// Every kind of kernels that this processor runs, and random numbers to compare them on with plain
/// loops.
class KernelsFixture : public testing::Test {
 protected:
  using Row = std::vector<float>;

  // Numbers of all sizes, and now and then one that is not usual.
  std::vector<float> numbers(std::int64_t n, bool odd) {
    static constexpr float kOdd[] = {0.0F,    -0.0F,  1e-40F,   -1e-45F,   3e38F,
                                     -1e30F,  1e-20F, 88.7F,    -88.0F,    -103.5F,
                                     -110.5F, 0.5F,   INFINITY, -INFINITY, NAN};
    std::normal_distribution<float> law(0.0F, random_() % 2 == 0 ? 1.0F : 30.0F);
    std::vector<float> out(static_cast<std::size_t>(n));
    for (float& x : out) x = odd && random_() % 40 == 0 ? kOdd[random_() % 15] : law(random_);
    return out;
  }
  template <class T>
  std::vector<T> bytes(std::int64_t n, int low, int high) {
    std::uniform_int_distribution<int> law(low, high);
    std::vector<T> out(static_cast<std::size_t>(n));
    for (T& x : out) x = static_cast<T>(law(random_));
    return out;
  }
  std::int64_t up_to(std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most));
  }

  // Calls `call(kernels, values)` with each kind and compares all of `values` afterwards.
  void compare(const Row& before, const std::function<void(const Kernels&, Row&)>& call,
               const std::string& what) {
    Row expected = before;
    call(scalar::kKernels, expected);
    for (const Kernels& kind : kinds_) {
      Row got = before;
      call(kind, got);
      const std::size_t i = difference(got, expected);
      ASSERT_EQ(i, expected.size()) << kind.name << ", " << what << ", value " << i << ": "
                                    << got[i] << " is not " << expected[i];
    }
  }
  // The first value that differs, or their number.
  static std::size_t difference(const Row& a, const Row& b) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      const bool nan = std::isnan(a[i]) && std::isnan(b[i]);
      if (!nan && std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) {
        return i;
      }
    }
    return b.size();
  }
  // Of an integer type: as floats, which hold them exactly.
  template <class T>
  static void append(Row& out, const std::vector<T>& x) {
    for (const T v : x) out.push_back(static_cast<float>(v));
  }

  // `work` between begin_job and end_job of the kinds that have them.
  template <class Work>
  void in_a_job(const Work& work) {
    for (const Kernels& kind : kinds_) {
      if (kind.begin_job != nullptr) kind.begin_job();
    }
    work();
    for (const Kernels& kind : kinds_) {
      if (kind.end_job != nullptr) kind.end_job();
    }
  }

  std::mt19937_64 random_{7};
  std::vector<Kernels> kinds_ = runnable_kernels();
};

/// From the first place on that is aligned to 64 bytes.
template <class T>
T* aligned(std::vector<T>& room) {
  auto at = reinterpret_cast<std::uintptr_t>(room.data());
  return room.data() + (64 - at % 64) % 64 / sizeof(T);
}

}  // namespace forerun
