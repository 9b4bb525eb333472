#include "forerun/train/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "forerun/train/gradients.h"
#include "forerun/train/schedule.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using nlohmann::json;

// Results of torch.optim.AdamW in float64 (tools/make_train_values.py).
const json& expected() {
  static const json values =
      json::parse(testing::read_file(FORERUN_SOURCE_DIR "/tests/data/train/optimizer.json"));
  return values;
}

at::Tensor tensor(const json& numbers, const json& shape) {
  return at::tensor(at::ArrayRef<double>(numbers.get<std::vector<double>>()))
      .to(at::kFloat)
      .view(shape.get<std::vector<std::int64_t>>());
}

double largest_difference(const at::Tensor& have, const json& numbers) {
  const at::Tensor want = at::tensor(at::ArrayRef<double>(numbers.get<std::vector<double>>()));
  return (have.detach().flatten().to(at::kDouble) - want).abs().max().item<double>();
}

std::vector<Parameter> start() {
  const json& e = expected();
  std::vector<Parameter> out = {{"plain"}, {"no decay", {}, 1.0, false}, {"half rate", {}, 0.5}};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].value = tensor(e["start"][i], e["shapes"][i]).clone().requires_grad_(true);
  }
  return out;
}

AdamW::Options options() {
  const json& e = expected();
  return {e["betas"][0], e["betas"][1], e["epsilon"], e["weight_decay"]};
}

TEST(AdamW, StepsAsPyTorchDoesWithClippingAndSchedule) {
  const json& e = expected();
  std::vector<Parameter> parameters = start();
  Gradients gradients(parameters);
  AdamW adamw(parameters, options());
  const auto steps = static_cast<std::int64_t>(e["steps"].size());
  const Schedule schedule{e["rate"], e["min_rate"], steps, e["warmup"]};
  int clipped = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const json& s = e["steps"][static_cast<std::size_t>(step - 1)];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      gradients.tensors()[i].copy_(tensor(s["gradients"][i], e["shapes"][i]));
    }
    const double norm = gradients.norm(), factor = clip_factor(norm, e["clip"]);
    EXPECT_NEAR(norm, s["norm"].get<double>(), 1e-6 * norm);
    EXPECT_NEAR(schedule.at(step), s["rate"].get<double>(), 1e-12);
    clipped += factor < 1.0;
    gradients.scale_(factor);
    adamw.update_(gradients.tensors(), schedule.at(step), step);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_LT(largest_difference(parameters[i].value, s["after"][i]), 1e-6)
          << parameters[i].name << ", step " << step;
    }
  }
  EXPECT_GT(clipped, 0);
  EXPECT_LT(clipped, steps);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_LT(largest_difference(adamw.first_moments()[i], e["first_moments"][i]), 1e-6);
    EXPECT_LT(largest_difference(adamw.second_moments()[i], e["second_moments"][i]), 1e-6);
  }
}

TEST(Gradients, AreWhatAutogradAddsInto) {
  std::vector<Parameter> parameters = start();
  Gradients gradients(parameters);
  for (int twice = 0; twice < 2; ++twice) {
    at::Tensor loss = at::zeros({});
    for (const Parameter& p : parameters) loss = loss + (p.value * p.value).sum();
    loss.backward();
  }
  std::size_t at = 0;
  for (const Parameter& p : parameters) {
    const at::Tensor want = (4.0 * p.value).detach().flatten();
    for (std::int64_t i = 0; i < want.numel(); ++i) {
      EXPECT_FLOAT_EQ(gradients.values_()[at++], want[i].item<float>());
    }
  }
  gradients.zero_();
  EXPECT_EQ(gradients.norm(), 0.0);
}

TEST(Gradients, OneBadElementShowsInTheNorm) {
  std::vector<Parameter> parameters = start();
  Gradients gradients(parameters);
  gradients.values_()[7] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(gradients.norm()));
  gradients.values_()[7] = 1e30F;  // its square exceeds float32's range, the norm does not
  EXPECT_NEAR(gradients.norm(), 1e30, 1e24);
}

TEST(Gradients, RefuseWhatCannotBeTrained) {
  std::vector<Parameter> twice = {{"a", at::zeros({2}).requires_grad_(true)},
                                  {"a", at::zeros({2}).requires_grad_(true)}};
  EXPECT_THROW(Gradients{twice}, std::invalid_argument);
  std::vector<Parameter> frozen = {{"a", at::zeros({2})}};
  EXPECT_THROW(Gradients{frozen}, std::invalid_argument);
  std::vector<Parameter> half = {{"a", at::zeros({2}, at::kBFloat16).requires_grad_(true)}};
  EXPECT_THROW(Gradients{half}, std::invalid_argument);
  std::vector<Parameter> none;
  EXPECT_THROW(Gradients{none}, std::invalid_argument);
}

TEST(ClipFactor, ReducesTheNormToTheLimitAndNoFurther) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_factor(4.0, 0.0), 1.0);
}

TEST(WeightAverage, FollowsTheWeightsAtItsDecay) {
  std::vector<Parameter> p = {{"a", at::zeros({1})}};
  WeightAverage average(p, 0.9);
  double want = 0.0;
  for (std::int64_t step = 1; step <= 200; ++step) {
    p[0].value.fill_(static_cast<double>(step));
    average.update_(p, step);
    const double t = static_cast<double>(step), decay = std::min(0.9, (1.0 + t) / (10.0 + t));
    want = decay * want + (1.0 - decay) * t;
    ASSERT_NEAR(average.values()[0].item<double>(), want, 1e-5 * want);
  }
  // A ramp's average lags by decay / (1 - decay) steps.
  EXPECT_NEAR(average.values()[0].item<double>(), 200.0 - 9.0, 0.1);
  EXPECT_FALSE(WeightAverage(p, 0.0).on());
}

}  // namespace
}  // namespace forerun
