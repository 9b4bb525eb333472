// The convolution against its definition written out, in float64; in the int8 engine against that.
#include "forerun/models/dynamic_conv.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "forerun/models/int8_conv.h"
#include "tests/support/distance.h"

namespace forerun {
namespace {

constexpr std::int64_t kRun = 4;

BlockConfig config_with(std::int64_t taps) {
  BlockConfig c;
  c.hidden = 12;
  c.conv_taps = taps;
  c.conv_group = 3;
  return c;
}

struct Case {
  explicit Case(std::int64_t taps, at::ScalarType type = at::kDouble) : config(config_with(taps)) {
    at::manual_seed(static_cast<std::uint64_t>(taps));
    conv.base = at::randn({2, taps, 12}, type);
    conv.projection = at::randn({config.conv_outputs(), 12}, type);
    x = at::randn({3 * kRun, 12}, type);
  }
  // Element by element: out[t, j] of one side.
  at::Tensor by_hand(const at::Tensor& deltas, std::int64_t side) const {
    at::Tensor out = at::zeros_like(x);
    for (std::int64_t t = 0; t < x.size(0); ++t) {
      for (std::int64_t j = 0; j < 12; ++j) {
        double sum = 0.0;
        for (std::int64_t o = 0; o < config.conv_taps && o <= t % kRun; ++o) {
          const double kernel = conv.base[side][o][j].item<double>() +
                                deltas[t][side][o][j / config.conv_group].item<double>();
          sum += kernel * x[t - o][j].item<double>();
        }
        out[t][j] = sum;
      }
    }
    return out;
  }

  BlockConfig config;
  DynamicConv conv;
  at::Tensor x;
};

TEST(DynamicConv, IsItsDefinition) {
  for (const std::int64_t taps : {1, 2, 4, 6}) {  // longer than a run too
    const Case c(taps);
    const at::Tensor deltas = c.conv.deltas(c.config, c.x);
    const at::Tensor product = at::matmul(c.x, c.conv.projection.t());
    EXPECT_EQ(distance(deltas.flatten(1), product), 0.0);
    for (const std::int64_t side : {0, 1}) {
      EXPECT_LT(distance(c.conv(c.x, deltas, side, kRun), c.by_hand(deltas, side)), 1e-12)
          << taps << " taps, side " << side;
    }
  }
}

TEST(DynamicConv, IdentityChangesNothing) {
  Case c(2, at::kFloat);
  make_identity(c.conv, c.config);
  for (const std::int64_t side : {0, 1}) {
    EXPECT_TRUE(at::equal(c.conv(c.x, c.conv.deltas(c.config, c.x), side, kRun), c.x));
  }
}

TEST(DynamicConv, GradientsAreFiniteDifferences) {
  Case c(2);
  const at::Tensor weight = at::randn({3 * kRun, 12}, at::kDouble);
  const auto loss = [&] {
    const at::Tensor deltas = c.conv.deltas(c.config, c.x);
    const at::Tensor y = c.conv(c.x, deltas, 0, kRun);
    return (c.conv(y.sin(), deltas, 1, kRun) * weight).sum();
  };
  for (at::Tensor* t : {&c.conv.base, &c.conv.projection, &c.x}) {
    t->requires_grad_(true);
    loss().backward();
    const at::Tensor slope = t->grad().clone();
    *t = t->detach();
    const at::Tensor flat = t->view(-1);
    for (std::int64_t i = 0; i < flat.numel(); i += 5) {
      constexpr double kStep = 1e-5;
      const at::Tensor at_i = flat.narrow(0, i, 1);
      at_i.add_(kStep);
      const double above = loss().item<double>();
      at_i.sub_(2 * kStep);
      const double below = loss().item<double>();
      at_i.add_(kStep);
      EXPECT_NEAR(slope.view(-1)[i].item<double>(), (above - below) / (2 * kStep), 1e-6) << i;
    }
  }
}

TEST(DynamicConv, ARowOfTheInt8EngineIsTheSame) {
  for (const std::int64_t taps : {1, 2, 3}) {
    const Case c(taps, at::kFloat);
    const at::Tensor deltas = c.conv.deltas(c.config, c.x).contiguous();
    Arena arena;
    const Int8Conv packed = Int8Conv::pack(c.conv, c.config, arena);
    EXPECT_GT(packed.bytes(), static_cast<std::int64_t>(c.conv.base.nbytes()));
    for (const std::int64_t side : {0, 1}) {
      at::Tensor out = at::empty_like(c.x);
      for (std::int64_t t = 0; t < c.x.size(0); ++t) {
        packed.row(side, c.x.const_data_ptr<float>() + t * 12, t % kRun,
                   deltas.const_data_ptr<float>() + t * c.config.conv_outputs(),
                   out.data_ptr<float>() + t * 12);
      }
      EXPECT_LT(distance(out, c.conv(c.x, deltas, side, kRun)), 1e-5) << taps << " " << side;
    }
  }
}

}  // namespace
}  // namespace forerun
