#include "forerun/tensor/reused_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace forerun {
namespace {

TEST(ReusedRows, MemoryIsUsedAgainOnceNobodyHoldsIt) {
  ReusedRows rows;
  at::Tensor first = rows.take(3, 8);
  EXPECT_EQ(first.sizes(), (at::IntArrayRef{3, 8}));
  EXPECT_EQ(first.scalar_type(), at::kFloat);
  const void* const memory = first.data_ptr();
  first.reset();
  EXPECT_EQ(rows.take(2, 8).data_ptr(), memory);  // fewer rows
  EXPECT_EQ(rows.take(3, 8).data_ptr(), memory);
}

TEST(ReusedRows, NoOtherTensorSharesWhatIsHeld) {
  ReusedRows rows;
  const at::Tensor first = rows.take(3, 8);
  first.fill_(1.0);
  at::Tensor second = rows.take(3, 8);
  second.fill_(2.0);
  const at::Tensor row = second[1];  // a view alone holds the memory too
  second.reset();
  rows.take(3, 8).fill_(3.0);
  EXPECT_TRUE(first.eq(1.0).all().item<bool>());
  EXPECT_TRUE(row.eq(2.0).all().item<bool>());
}

TEST(ReusedRows, GrowsAndHasMemoryForEveryWidth) {
  ReusedRows rows;
  rows.take(1, 8);
  at::Tensor more = rows.take(5, 8);
  more.fill_(1.0);
  EXPECT_EQ(more.size(0), 5);
  const at::Tensor wide = rows.take(2, 16);
  wide.fill_(2.0);
  EXPECT_TRUE(more.eq(1.0).all().item<bool>());
  EXPECT_EQ(wide.size(1), 16);
  EXPECT_EQ(rows.take(0, 8).size(0), 0);
}

// More than are kept: they are plain tensors then.
TEST(ReusedRows, HeldTensorsStayApartHoweverMany) {
  ReusedRows rows;
  std::vector<at::Tensor> held;
  for (int i = 0; i < 40; ++i) {
    held.push_back(rows.take(2, 4));
    held.back().fill_(i);
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(held[static_cast<std::size_t>(i)].eq(i).all().item<bool>()) << i;
  }
}

}  // namespace
}  // namespace forerun
