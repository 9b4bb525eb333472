// Products with 4-bit weights and the rows for them, of every kind of kernels, against plain loops:
// bit for bit.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "forerun/tensor/cpu/kernels/kernels_fixture.h"

namespace forerun {
namespace {

using kernel::GroupScale;
using kernel::Int4Group;
using kernel::Int8Rows;
using kernel::kGroup;
using kernel::kPanel;

// Bytes that end where the process has no memory.
class BeforeNoMemory {
 public:
  BeforeNoMemory(const void* bytes, std::size_t n)
      : mapped_((n + kPage - 1) / kPage * kPage + kPage) {
    start_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) throw std::bad_alloc();
    char* const end = static_cast<char*>(start_) + mapped_ - kPage;
    if (mprotect(end, kPage, PROT_NONE) != 0) throw std::runtime_error("mprotect failed");
    at_ = static_cast<char*>(std::memcpy(end - n, bytes, n));
  }
  ~BeforeNoMemory() { munmap(start_, mapped_); }
  BeforeNoMemory(const BeforeNoMemory&) = delete;
  BeforeNoMemory& operator=(const BeforeNoMemory&) = delete;

  template <class T>
  T* at() const {
    return reinterpret_cast<T*>(at_);
  }

 private:
  static constexpr std::size_t kPage = 4096;

  std::size_t mapped_;
  void* start_;
  char* at_;
};

// Whether this thread's tiles hold anything, for which the system would save them: XGETBV with
// 1, bits 17 and 18. For processors with AMX.
bool tiles_in_use() {
#if defined(__x86_64__)
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low >> 17 & 3U) != 0;
#else
  return false;
#endif
}

class Int4Kernels : public KernelsFixture {
 protected:
  // Levels at random; scales are any float16 but infinity and NaN.
  std::vector<Int4Group> panels(std::int64_t count, std::int64_t groups) {
    std::vector<Int4Group> out(static_cast<std::size_t>(3 * count * groups + 1));
    for (Int4Group& g : out) {
      const auto levels = bytes<std::uint8_t>(sizeof g.codes, 0, 255);
      std::memcpy(g.codes, levels.data(), sizeof g.codes);
      for (auto* half : {g.scale, g.least}) {
        for (int j = 0; j < 16; ++j) {
          half[j] = static_cast<std::uint16_t>(random_() % 0x7c00 | random_() % 2 << 15);
        }
      }
    }
    return out;
  }
  void compare_panels(bool e2m1);
};

void Int4Kernels::compare_panels(bool e2m1) {
  for (const bool extreme : {false, true}) {
    for (std::int64_t rows = 1; rows <= 50; ++rows) {
      // Up to 8 groups are unpacked ahead.
      const std::int64_t groups = rows % 2 == 0 ? up_to(7) : 8 + up_to(30), width = groups * kGroup;
      const std::int64_t outputs = rows % 4 == 0 ? kPanel : up_to(kPanel), stride = 60;
      auto values = bytes<std::int8_t>(rows * width, -127, 127);
      auto weights = panels(2, groups);
      if (extreme) {  // the largest sums that a group has
        for (auto& x : values) x = 127;
        const int largest = e2m1 ? 0x77 : 0xff;
        for (Int4Group& g : weights) std::memset(g.codes, largest, sizeof g.codes);
      }
      std::vector<std::uint8_t> room(weights.size() * sizeof(Int4Group) + 64);
      std::uint8_t* const data = aligned(room);
      std::memcpy(data, weights.data(), (weights.size() - 1) * sizeof(Int4Group));
      std::vector<GroupScale> scales(static_cast<std::size_t>(rows * groups));
      for (GroupScale& s : scales) s = {numbers(1, false)[0], numbers(1, false)[0]};
      const Row bias = numbers(2 * kPanel, false);
      for (const bool add : {false, true}) {
        compare(
            numbers(rows * stride, false),
            [&](const Kernels& kind, Row& x) {
              const Int8Rows in{.values = values.data(),
                                .scales = nullptr,
                                .width = width,
                                .halves = nullptr,
                                .groups = scales.data(),
                                .grouped = true};
              kind.int4_panel({data, add ? bias.data() : nullptr, width, e2m1}, 1, in, rows,
                              x.data(), stride, outputs, add, add ? data : nullptr);
            },
            std::to_string(rows) + " rows of " + std::to_string(width) + ", " +
                std::to_string(outputs) + " outputs");
      }
    }
  }
}

TEST_F(Int4Kernels, PanelsAreThePlainSums) {
  compare_panels(false);
  compare_panels(true);
}

// State that products keep from one call to the next fits other numbers of rows and products of
// bytes as well.
TEST_F(Int4Kernels, ProductsWithinAJob) {
  in_a_job([&] {
    compare_panels(false);
    compare_panels(true);
  });
  constexpr std::int64_t kWidth = 128, kGroups = kWidth / kGroup;
  const auto weights = panels(1, kGroups);
  std::vector<std::uint8_t> room(weights.size() * sizeof(Int4Group) + 64);
  std::uint8_t* const nibbles = aligned(room);
  std::memcpy(nibbles, weights.data(), (weights.size() - 1) * sizeof(Int4Group));
  auto bytes_room = bytes<std::uint8_t>(kPanel * kWidth + 64, 1, 255);
  std::uint8_t* const byte_panel = aligned(bytes_room);
  const Row output_scales = numbers(kPanel, false);
  for (std::int64_t rows = 1; rows <= 33; ++rows) {
    auto values = bytes<std::int8_t>(rows * kWidth, -127, 127);
    std::vector<std::int16_t> halves(values.size());  // what they hold is the same for both turns
    std::vector<GroupScale> groups(static_cast<std::size_t>(rows * kGroups), {0.5F, -3.0F});
    std::vector<kernel::RowScale> scales(static_cast<std::size_t>(rows), {0.5F, -7});
    const Int8Rows x{.values = values.data(),
                     .scales = scales.data(),
                     .width = kWidth,
                     .halves = halves.data(),
                     .groups = groups.data(),
                     .grouped = true};
    for (const Kernels& kind : kinds_) {
      const auto both = [&] {
        Row out(static_cast<std::size_t>(2 * rows * kPanel));
        kind.int4_panel({nibbles, nullptr, kWidth}, 0, x, rows, out.data(), kPanel, kPanel, false,
                        nullptr);
        kind.int8_panel({byte_panel, output_scales.data(), nullptr, kWidth}, 0, x, rows,
                        out.data() + rows * kPanel, kPanel, kPanel, false, nullptr);
        return out;
      };
      const Row alone = both();
      if (kind.begin_job != nullptr) kind.begin_job();
      const Row first = both(), second = both();
      if (kind.end_job != nullptr) kind.end_job();
      ASSERT_EQ(difference(first, alone), alone.size()) << kind.name << ", " << rows << " rows";
      ASSERT_EQ(difference(second, alone), alone.size()) << kind.name << ", " << rows << " rows";
      const bool has_tiles = kind.begin_job != nullptr;
      ASSERT_FALSE(has_tiles && tiles_in_use()) << rows << " rows";
    }
  }
}

// Weights, rows and their scales end where the process has no memory: also of instructions that
// sanitizers do not see.
TEST_F(Int4Kernels, NothingIsReadPastTheEnd) {
  for (const std::int64_t rows : {1, 5, 8, 9, 16, 17, 33}) {
    for (const std::int64_t groups : {1, 2, 8, 9}) {
      const std::int64_t width = groups * kGroup, stride = kPanel;
      const auto weights = panels(1, groups);
      const BeforeNoMemory data(weights.data(), (weights.size() - 1) * sizeof(Int4Group));
      const auto bytes_of_rows = bytes<std::int8_t>(rows * width, -127, 127);
      const BeforeNoMemory values(bytes_of_rows.data(), bytes_of_rows.size());
      const std::vector<GroupScale> plain(static_cast<std::size_t>(rows * groups), {0.5F, -3.0F});
      const BeforeNoMemory scales(plain.data(), plain.size() * sizeof(GroupScale));
      const auto panel = [&](const Kernels& kind, Row& x) {
        kind.int4_panel({data.at<std::uint8_t>(), nullptr, width}, 0,
                        {.values = values.at<std::int8_t>(),
                         .scales = nullptr,
                         .width = width,
                         .halves = nullptr,
                         .groups = scales.at<GroupScale>(),
                         .grouped = true},
                        rows, x.data(), stride, kPanel, false, nullptr);
      };
      const std::string what = std::to_string(rows) + " rows, " + std::to_string(groups);
      compare(Row(static_cast<std::size_t>(rows * stride)), panel, what);
      in_a_job([&] { compare(Row(static_cast<std::size_t>(rows * stride)), panel, what); });
    }
  }
}

TEST_F(Int4Kernels, StoresPastTheCachesChangeNoBit) {
  for (std::int64_t rows = 1; rows <= 9; ++rows) {
    const std::int64_t groups = up_to(4), width = groups * kGroup, stride = 2 * kPanel;
    auto values = bytes<std::int8_t>(rows * width, -127, 127);
    const auto weights = panels(1, groups);
    std::vector<std::uint8_t> room(weights.size() * sizeof(Int4Group) + 64);
    std::uint8_t* const data = aligned(room);
    std::memcpy(data, weights.data(), (weights.size() - 1) * sizeof(Int4Group));
    std::vector<GroupScale> scales(static_cast<std::size_t>(rows * groups), {0.5F, -3.0F});
    const Row start = numbers(rows * stride, false);
    for (const Kernels& kind : kinds_) {
      for (const std::int64_t outputs : {kPanel, up_to(kPanel)}) {
        Row results[2];
        for (const bool far : {false, true}) {
          Row space(start.size() + 16);
          float* const out = aligned(space);
          std::ranges::copy(start, out);
          kind.int4_panel({data, nullptr, width}, 0,
                          {.values = values.data(),
                           .scales = nullptr,
                           .width = width,
                           .halves = nullptr,
                           .far = far,
                           .groups = scales.data(),
                           .grouped = true},
                          rows, out, stride, outputs, rows % 2 == 0, nullptr);
          results[far ? 1 : 0].assign(out, out + rows * stride);
        }
        ASSERT_EQ(difference(results[1], results[0]), results[0].size()) << kind.name;
      }
    }
  }
}

// Each group by its own scale, in place of the work or beside it, streamed or not.
TEST_F(Int4Kernels, RowsAreRoundedByGroups) {
  for (int t = 0; t < 200; ++t) {
    const std::int64_t groups = up_to(20), width = groups * kGroup;
    const Row weight = numbers(width, false);
    for (const bool far : {false, true}) {
      for (const int how : {0, 1, 2}) {
        compare(
            numbers(width, t % 5 == 0),
            [&](const Kernels& kind, Row& x) {
              std::vector<std::int8_t> room(static_cast<std::size_t>(width + 64));
              std::vector<GroupScale> scales(static_cast<std::size_t>(groups));
              Row work(static_cast<std::size_t>(width));
              const Int8Rows out{.values = aligned(room),
                                 .scales = nullptr,
                                 .width = width,
                                 .halves = nullptr,
                                 .far = far,
                                 .groups = scales.data(),
                                 .grouped = true};
              if (how == 0) kind.quantize_row(x.data(), width, out, 0, work.data());
              if (how == 1) {
                work = x;
                kind.quantize_row(work.data(), width, out, 0, work.data());
              }
              if (how == 2) {
                kind.norm_quantize_row(x.data(), weight.data(), 1e-5F, width, out, 0, work.data());
              }
              for (std::int64_t i = 0; i < width; ++i) x.push_back(out.values[i]);
              for (const GroupScale& s : scales) {
                x.push_back(s.scale);
                x.push_back(s.sum);
              }
            },
            std::to_string(width) + " values");
      }
    }
  }
}

TEST_F(Int4Kernels, AGroupsScaleIsThatOfItsLargestValue) {
  Row x = numbers(96, false);
  for (std::size_t i = 32; i < 64; ++i) x[i] *= 1000.0F;
  std::fill(x.begin() + 64, x.end(), 0.0F);
  for (const Kernels& kind : kinds_) {
    std::vector<std::int8_t> values(96);
    std::vector<GroupScale> scales(3);
    Row work(96);
    kind.quantize_row(x.data(), 96,
                      {.values = values.data(),
                       .scales = nullptr,
                       .width = 96,
                       .halves = nullptr,
                       .groups = scales.data(),
                       .grouped = true},
                      0, work.data());
    for (std::size_t i = 0; i < 96; ++i) {
      const GroupScale& of = scales[i / 32];
      EXPECT_NEAR(static_cast<float>(values[i]) * of.scale, x[i], 0.51F * of.scale) << i;
    }
    EXPECT_GT(scales[1].scale, 50.0F * scales[0].scale);
    EXPECT_EQ(scales[2].scale, 0.0F);
    EXPECT_EQ(scales[2].sum, 0.0F);
  }
}

}  // namespace
}  // namespace forerun
