#include "forerun/models/markov_head.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "forerun/models/internal/bf16_dots.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

// Additions to some ids are near those of float32 whether the file's bf16 or float32 is kept: for
// weights that bf16 holds exactly, and for others.
TEST(MarkovHead, OfIdsAddsTheSameInEveryPrecision) {
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  const at::Tensor w1 = at::randn({11, 20}), fine = at::randn({300, 20});
  const at::Tensor gate = at::randn({20, 20});
  const std::vector<std::int32_t> ids = {299, 0, 17, 17};
  const std::vector<float> state(20, 0.25F);
  for (const at::Tensor& w2 : {fine, fine.to(at::kBFloat16).to(at::kFloat)}) {
    for (const at::Tensor& g : {at::Tensor(), gate}) {
      const MarkovHead exact(w1, w2, Precision::kF32, g), fast(w1, w2, Precision::kInt8, g);
      std::vector<float> want(4, 1.0F), have = want, row(300, 1.0F);
      exact.add(5, ids, want, state);
      fast.add(5, ids, have, state);
      exact.add(5, row, state);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_NEAR(have[i], want[i], 1e-5) << i;
        EXPECT_EQ(want[i], row[static_cast<std::size_t>(ids[i])]) << i;
      }
    }
  }
}

// Bit for bit what rows of bf16 give.
TEST(MarkovHead, ReadsBf16WhereItHoldsTheWeights) {
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  const at::Tensor w1 = at::randn({4, 64}), w2 = at::randn({50, 64}).to(at::kBFloat16);
  const MarkovHead head(w1, w2.to(at::kFloat), Precision::kInt8);
  std::vector<std::int32_t> ids(50);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> have(50, 0.0F), want = have, apart = have;
  head.add(3, ids, have);
  const auto* rows = reinterpret_cast<const std::uint16_t*>(w2.const_data_ptr<at::BFloat16>());
  internal::add_dots(head.before(3), rows, ids, want);
  EXPECT_EQ(have, want);
  MarkovHead(w1, w2.to(at::kFloat), Precision::kF32).add(3, ids, apart);
  EXPECT_NE(have, apart);  // sums in another order: some last bits differ
}

}  // namespace
}  // namespace forerun
