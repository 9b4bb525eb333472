#include "forerun/tensor/mixed_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/support/distance.h"

namespace forerun {
namespace {

constexpr std::int64_t kRows = 37, kColumns = 53, kLaws = 5;

struct Example {
  at::Tensor logits, addend;
  MixedTargets targets;
};

Example example(at::ScalarType type, double share) {
  at::manual_seed(3);
  Example e;
  e.logits = (at::randn({kRows, kColumns}, at::kDouble) * 3.0).to(type);
  e.addend = at::randn({kRows, kColumns}, at::kDouble).to(type);
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  e.targets.laws = at::softmax(at::randn({kLaws, kColumns}, at::kDouble) * 2.0, 1).to(wide);
  e.targets.share = share;
  for (std::int64_t r = 0; r < kRows; ++r) {
    e.targets.label.push_back(r * 7 % kColumns);
    e.targets.law_of.push_back(r * 3 % kLaws);
    e.targets.weight.push_back(0.1F * static_cast<float>(r % 11));
  }
  return e;
}

// Its gradient is that of 0.3 times the loss.
MixedCrossEntropy with_gradient(Example& e) {
  e.logits.requires_grad_(true);
  e.addend.requires_grad_(true);
  MixedCrossEntropy out = mixed_cross_entropy(e.logits, e.addend, e.targets);
  (out.loss * 0.3).backward();
  return out;
}

class MixedLoss : public ::testing::TestWithParam<std::tuple<at::ScalarType, double>> {};

TEST_P(MixedLoss, AndItsGradientAreThoseOfTheDefinition) {
  const auto [type, share] = GetParam();
  Example e = example(type, share);
  // The definition, in float64, of the same rounded inputs.
  const at::Tensor a = e.logits.to(at::kDouble).requires_grad_(true);
  const at::Tensor b = e.addend.to(at::kDouble).requires_grad_(true);
  const at::Tensor log_q = at::log_softmax(a + b, 1);
  const at::Tensor p =
      e.targets.laws.to(at::kDouble).index_select(0, at::tensor(e.targets.law_of, at::kLong));
  const at::Tensor token =
      log_q.gather(1, at::tensor(e.targets.label, at::kLong).unsqueeze(1)).squeeze(1).neg();
  const at::Tensor weight = at::tensor(e.targets.weight, at::kFloat).to(at::kDouble);
  const at::Tensor expected = ((token * (1.0 - share) - (p * log_q).sum(1) * share) * weight).sum();
  (expected * 0.3).backward();

  const MixedCrossEntropy got = with_gradient(e);
  const double bound = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 3e-3;
  const double loss_bound = type == at::kDouble ? 1e-10 : 1e-3;  // a sum of some 100
  EXPECT_LT(distance(got.loss, expected), loss_bound);
  EXPECT_LT(distance(e.logits.grad(), a.grad()), bound);
  EXPECT_LT(distance(e.addend.grad(), b.grad()), bound);
  EXPECT_LT(distance(got.overlap, at::minimum(p, log_q.exp()).sum(1)),
            type == at::kDouble ? 1e-12 : 1e-5);
  EXPECT_TRUE(at::equal(got.best, (a + b).argmax(1)));
}

// The distance's slope jumps where p = q, which no column of the example meets.
TEST_P(MixedLoss, AsADistanceOfLawsAndItsGradientAreThoseOfTheDefinition) {
  const auto [type, share] = GetParam();
  Example e = example(type, share);
  e.targets.law_loss = LawLoss::kL1;
  e.targets.covered = at::tensor({0.9, 0.2, 1.0, 0.05, 0.6}, e.targets.laws.options());
  const at::Tensor a = e.logits.to(at::kDouble).requires_grad_(true);
  const at::Tensor b = e.addend.to(at::kDouble).requires_grad_(true);
  const at::Tensor log_q = at::log_softmax(a + b, 1);
  const at::Tensor of = at::tensor(e.targets.law_of, at::kLong);
  const at::Tensor covered = e.targets.covered.to(at::kDouble).index_select(0, of);
  const at::Tensor p = e.targets.laws.to(at::kDouble).index_select(0, of) * covered.unsqueeze(1);
  const at::Tensor token =
      log_q.gather(1, at::tensor(e.targets.label, at::kLong).unsqueeze(1)).squeeze(1).neg();
  const at::Tensor far = (log_q.exp() - p).abs().sum(1) + (1.0 - covered);
  const at::Tensor weight = at::tensor(e.targets.weight, at::kFloat).to(at::kDouble);
  const at::Tensor expected = ((token * (1.0 - share) + far * share) * weight).sum();
  (expected * 0.3).backward();

  const MixedCrossEntropy got = with_gradient(e);
  const double bound = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 3e-3;
  EXPECT_LT(distance(got.loss, expected), type == at::kDouble ? 1e-10 : 1e-3);
  EXPECT_LT(distance(e.logits.grad(), a.grad()), bound);
  EXPECT_LT(distance(e.addend.grad(), b.grad()), bound);
  EXPECT_LT(distance(got.overlap, at::minimum(p, log_q.exp()).sum(1)),
            type == at::kDouble ? 1e-12 : 1e-5);
}

// Laws partly outside the columns: the loss uses their normalised part, the overlap their actual
// mass.
TEST_P(MixedLoss, OfLawsThatAreCoveredInPartDiffersInTheOverlapAlone) {
  const auto [type, share] = GetParam();
  Example e = example(type, share);
  e.logits.requires_grad_(true);
  const MixedCrossEntropy whole = mixed_cross_entropy(e.logits, e.addend, e.targets);
  whole.loss.backward();
  const at::Tensor slope = e.logits.grad().clone();
  e.logits.mutable_grad() = at::Tensor();
  e.targets.covered = at::tensor({0.9, 0.2, 1.0, 0.0, 0.6}, at::kFloat);
  const MixedCrossEntropy part = mixed_cross_entropy(e.logits, e.addend, e.targets);
  part.loss.backward();
  EXPECT_TRUE(at::equal(part.loss, whole.loss));
  EXPECT_TRUE(at::equal(e.logits.grad(), slope));
  const at::Tensor of = at::tensor(e.targets.law_of, at::kLong);
  const at::Tensor p = e.targets.laws.to(at::kDouble).index_select(0, of) *
                       e.targets.covered.to(at::kDouble).index_select(0, of).unsqueeze(1);
  const at::Tensor q = at::softmax(e.logits.detach().to(at::kDouble) + e.addend.to(at::kDouble), 1);
  EXPECT_LT(distance(part.overlap, at::minimum(p, q).sum(1)), 1e-5);
}

TEST_P(MixedLoss, WithoutAnAddendIsThatOfAnAddendOfZeros) {
  const auto [type, share] = GetParam();
  const Example e = example(type, share);
  const at::Tensor zeros = at::zeros_like(e.logits);
  const MixedCrossEntropy with = mixed_cross_entropy(e.logits, zeros, e.targets);
  const MixedCrossEntropy without = mixed_cross_entropy(e.logits, {}, e.targets);
  EXPECT_TRUE(at::equal(with.loss, without.loss));
  EXPECT_TRUE(at::equal(with.overlap, without.overlap));
}

INSTANTIATE_TEST_SUITE_P(Types, MixedLoss,
                         ::testing::Combine(::testing::Values(at::kDouble, at::kFloat,
                                                              at::kBFloat16),
                                            ::testing::Values(0.0, 0.4, 1.0)),
                         [](const auto& test) {
                           return std::string(at::toString(std::get<0>(test.param))) +
                                  std::to_string(static_cast<int>(10 * std::get<1>(test.param)));
                         });

TEST(MixedLossRows, DoNotDependOnTheNumberOfThreads) {
  Example e = example(at::kFloat, 0.5);
  e.logits.requires_grad_(true);
  const int before = at::get_num_threads();
  std::vector<at::Tensor> losses, slopes;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    e.logits.mutable_grad() = at::Tensor();
    const MixedCrossEntropy out = mixed_cross_entropy(e.logits, e.addend, e.targets);
    out.loss.backward();
    losses.push_back(out.loss.detach());
    slopes.push_back(e.logits.grad().clone());
  }
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(losses[0], losses[1]));
  EXPECT_TRUE(at::equal(slopes[0], slopes[1]));
}

TEST(MixedLossRows, OfOtherShapesAreRefused) {
  const Example e = example(at::kFloat, 0.5);
  const auto refused = [&](auto&& change) {
    Example other = e;
    change(other);
    EXPECT_THROW(mixed_cross_entropy(other.logits, other.addend, other.targets),
                 std::invalid_argument);
  };
  refused([](Example& x) { x.targets.label.pop_back(); });
  refused([](Example& x) { x.targets.label[3] = kColumns; });
  refused([](Example& x) { x.targets.law_of[0] = -1; });
  refused([](Example& x) { x.targets.laws = x.targets.laws.narrow(1, 0, 4); });
  refused([](Example& x) { x.addend = x.addend.narrow(0, 0, 4); });
  refused([](Example& x) { x.targets.covered = at::ones({kLaws + 1}); });
}

}  // namespace
}  // namespace forerun
