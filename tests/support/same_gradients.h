#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "forerun/train/objective.h"

namespace forerun::testing {

/// Backward passes of two losses of the same parameters: equal losses, equal gradients, none zero.
inline void expect_same_gradients(LossSum have, const std::vector<Parameter>& parameters,
                                  LossSum want, const std::vector<Parameter>& others) {
  const double loss = want.loss.item<double>();
  EXPECT_NEAR(have.loss.item<double>(), loss, 1e-5 * loss);
  have.loss.backward();
  want.loss.backward();
  ASSERT_EQ(parameters.size(), others.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor is = parameters[i].value.grad(), was = others[i].value.grad();
    const double largest = was.abs().max().item<double>();
    EXPECT_GT(largest, 0.0) << parameters[i].name;
    EXPECT_LT((is - was).abs().max().item<double>(), 1e-4 * largest) << parameters[i].name;
  }
}

}  // namespace forerun::testing
