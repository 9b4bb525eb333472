#include "forerun/tensor/joint_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace forerun {
namespace {

const std::vector<Visible> kLeft = {{0, 5}, {0, 0}, {2, 7}, {1, 2}};  // row 1 sees no column
const std::vector<Visible> kRight = {{0, 1}, {0, 3}};
constexpr std::int64_t kGroup = 3;

// [1, rows, columns] bool by the definition.
at::Tensor mask(const std::vector<Visible>& seen, std::int64_t rows, std::int64_t columns) {
  at::Tensor out = at::zeros({1, rows, columns}, at::kBool);
  for (std::int64_t r = 0; r < rows; ++r) {
    const Visible v = seen[static_cast<std::size_t>(r / kGroup) % seen.size()];
    out.narrow(1, r, 1).narrow(2, v.begin, v.end - v.begin).fill_(true);
  }
  return out;
}

class JointSoftmax : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(JointSoftmax, IsOneSoftmaxOverWhatCountsOfBoth) {
  at::manual_seed(1);
  const auto type = GetParam();
  const double scale = 0.37;
  // The right one is a piece of a larger matrix: only its rows are contiguous.
  const at::Tensor left = at::randn({2, 12, 7}, at::kDouble).to(type);
  const at::Tensor whole = at::randn({2, 20, 3}, at::kDouble).to(type);
  const at::Tensor right = whole.narrow(1, 4, 12);
  const at::Tensor seen = at::cat({mask(kLeft, 12, 7), mask(kRight, 12, 3)}, -1);
  at::Tensor scores = at::cat({left, right}, -1).to(at::kDouble).requires_grad_(true);
  const at::Tensor expected = at::softmax(
      (scores * scale).masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()),
      -1);
  const at::Tensor slope = at::randn({2, 12, 10}, at::kDouble).to(type).to(at::kDouble);
  (expected * slope).sum().backward();

  const at::Tensor beside = whole.narrow(1, 0, 4).clone();
  joint_softmax_(left, right, kLeft, kRight, kGroup, scale);
  const at::Tensor got = at::cat({left, right}, -1).to(at::kDouble);
  const double bound = type == at::kDouble ? 1e-14 : type == at::kFloat ? 1e-6 : 4e-3;
  EXPECT_LT((got - expected).abs().max().item<double>(), bound);
  EXPECT_EQ(got.masked_select(seen.logical_not().expand_as(got)).abs().max().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(whole.narrow(1, 0, 4), beside));

  const at::Tensor left_slope = slope.narrow(-1, 0, 7).to(type).contiguous();
  const at::Tensor right_slope = slope.narrow(-1, 7, 3).to(type).contiguous();
  joint_softmax_backward_(left, right, left_slope, right_slope, kLeft, kRight, kGroup, scale);
  const at::Tensor gradient = at::cat({left_slope, right_slope}, -1).to(at::kDouble);
  EXPECT_LT((gradient - scores.grad()).abs().max().item<double>(), 2 * bound);
}

INSTANTIATE_TEST_SUITE_P(Types, JointSoftmax,
                         ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16),
                         [](const auto& type) { return std::string(at::toString(type.param)); });

}  // namespace
}  // namespace forerun
