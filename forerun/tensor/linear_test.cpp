// Layers of one input are one product where they lie side by side, and stay apart where they learn.
#include "forerun/tensor/linear.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace forerun {
namespace {

struct Pair {
  Linear a, b;
};

Pair side_by_side() {
  const at::Tensor weight = at::randn({7, 5}), bias = at::randn({7});
  return {{weight.narrow(0, 0, 3), bias.narrow(0, 0, 3)},
          {weight.narrow(0, 3, 4), bias.narrow(0, 3, 4)}};
}

TEST(Linear, NeighboursAreOneView) {
  const Pair p = side_by_side();
  const Linear one = joined({&p.a, &p.b});
  EXPECT_TRUE(one.weight.is_alias_of(p.a.weight));
  EXPECT_TRUE(at::equal(one.weight, at::cat({p.a.weight, p.b.weight})));
  EXPECT_TRUE(at::equal(one.bias, at::cat({p.a.bias, p.b.bias})));
  const at::Tensor x = at::randn({2, 5});
  const std::vector<at::Tensor> out = products(x, {&p.a, &p.b});
  EXPECT_TRUE(out[0].is_alias_of(out[1]));
  EXPECT_TRUE(at::allclose(out[0], p.a(x)) && at::allclose(out[1], p.b(x)));
}

TEST(Linear, OthersAreCopied) {
  Pair p = side_by_side();
  const Linear swapped = joined({&p.b, &p.a});
  EXPECT_FALSE(swapped.weight.is_alias_of(p.a.weight));
  EXPECT_TRUE(at::equal(swapped.weight, at::cat({p.b.weight, p.a.weight})));
  EXPECT_TRUE(at::equal(swapped.bias, at::cat({p.b.bias, p.a.bias})));
  p.b.weight = p.b.weight.clone();  // new values, as an optimizer's: the old ones are not read
  const at::Tensor x = at::randn({2, 5});
  p.b.weight.add_(1.0);
  EXPECT_TRUE(at::equal(products(x, {&p.a, &p.b})[1], p.b(x)));
}

TEST(Linear, NeighboursThatLearnHaveGradientsOfTheirOwn) {
  const Pair p = side_by_side();
  p.a.weight.requires_grad_();
  p.b.weight.requires_grad_();
  const at::Tensor x = at::randn({2, 5});
  const std::vector<at::Tensor> out = products(x, {&p.a, &p.b});
  (out[0].sum() + 2.0 * out[1].sum()).backward();
  const at::Tensor column = x.sum(0).unsqueeze(0);
  EXPECT_TRUE(at::allclose(p.a.weight.grad(), column.expand({3, 5})));
  EXPECT_TRUE(at::allclose(p.b.weight.grad(), 2.0 * column.expand({4, 5})));
}

}  // namespace
}  // namespace forerun
