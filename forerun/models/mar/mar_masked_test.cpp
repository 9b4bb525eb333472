#include "forerun/models/mar/mar_masked.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "forerun/formats/safetensors.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/models/mar/masked_network.h"
#include "forerun/models/vae/vae.h"
#include "tests/support/float64_values.h"

namespace forerun {
namespace {

at::Tensor masked_value(const Safetensors& file, const char* name) {
  const TensorView* t = file.find(name);
  if (t == nullptr) throw std::out_of_range(name);
  at::Tensor out = at::empty(t->shape, t->dtype == DType::kI64 ? at::kLong : at::kFloat);
  std::memcpy(out.mutable_data_ptr(), t->bytes.data(), t->bytes.size());
  return out;
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

struct Masked {
  const std::filesystem::path folder =
      std::filesystem::path(FORERUN_SOURCE_DIR) / "tests/data/mar/masked";
  const Safetensors expected = load_safetensors(folder / "expected.safetensors");
  const Mar model = load_mar(folder);
  at::Tensor operator()(const char* name) const { return masked_value(expected, name); }
};

TEST(MarMasked, BackboneAndHeadAreTheReferences) {
  const at::NoGradGuard no_grad;
  const Masked m;
  const at::Tensor z = run_masked(m.model, m("tokens"), m("known").to(at::kBool), m("label"));
  EXPECT_LT(relative_distance(z, m("z")), 1e-5);
  const at::Tensor out = run_head(m.model.head, m.model.config, m("x").unsqueeze(1), m("time"),
                                  m("z").reshape({-1, m.model.config.hidden}));
  EXPECT_LT(relative_distance(out.squeeze(1), m("output")), 1e-5);
}

TEST(MarMasked, ThePackedBackboneIsTheReferenceOnAnyThreads) {
  const at::NoGradGuard no_grad;
  const Masked m;
  const MaskedNetwork network(m.model);
  const at::Tensor tokens = m("tokens").contiguous(), known = m("known").to(at::kByte).contiguous(),
                   label = m("label"), z = m("z");
  for (std::int64_t i = 0; i < tokens.size(0); ++i) {
    const auto run = [&](int threads) {
      at::set_num_threads(threads);
      std::vector<float> out = network.outputs(
          {tokens[i].const_data_ptr<float>(), static_cast<std::size_t>(tokens[i].numel())},
          {known[i].const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(known[i].numel())},
          label[i].item<std::int64_t>());
      at::set_num_threads(1);
      return out;
    };
    const std::vector<float> alone = run(1);
    EXPECT_EQ(run(2), alone);
    EXPECT_LT(relative_distance(at::tensor(alone).view_as(z[i]), z[i]), 1e-5);
  }
  const std::vector<float> short_of(3);
  EXPECT_THROW(network.outputs(short_of, {}, 0), std::invalid_argument);
}

TEST(MarMasked, UnknownTokensAreNotRead) {
  const at::NoGradGuard no_grad;
  const Masked m;
  const at::Tensor known = m("known").to(at::kBool);
  const at::Tensor other = at::where(known.unsqueeze(2), m("tokens"), at::full({}, 9.0F));
  EXPECT_TRUE(run_masked(m.model, other, known, m("label"))
                  .equal(run_masked(m.model, m("tokens"), known, m("label"))));
  at::Tensor uneven = known.clone();
  uneven[0][0] = !known[0][0].item<bool>();
  EXPECT_THROW(run_masked(m.model, other, uneven, m("label")), std::invalid_argument);
}

TEST(MarMasked, ASampledTrajectoryIsTheReferences) {
  const Masked m;
  const at::Tensor order = m("order"), noise = m("noise"), path = m("path");
  const std::int64_t steps = path.size(0), chain = noise.size(1), n = order.size(1);
  const auto network = std::make_shared<const MarNetwork>(m.model);
  const MarHead head(network, {.steps = chain,
                               .variance = MarVariance::kLearned,
                               .final_step = MarFinalStep::kDeterministic});
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t i = 0; i < order.size(0); ++i) {
    const auto* const p = order[i].const_data_ptr<std::int64_t>();
    orders.emplace_back(p, p + n);
  }
  const auto given = [&](std::int64_t image, std::int64_t step, std::int64_t token,
                         std::int64_t transition, std::span<float> out) {
    // The first state has the highest level; transition k leads from level chain - 1 - k down.
    const at::Tensor row = noise[step][chain - 2 - transition][image * n + token];
    std::copy_n(row.const_data_ptr<float>(), out.size(), out.begin());
  };
  std::int64_t step = 0;
  const MaskedSampling sampling{.steps = steps, .guidance = 3.0};
  sample_masked(m.model, *network, head, std::array<std::int64_t, 2>{0, 2}, orders, sampling, given,
                [&](const at::Tensor& tokens) {
                  EXPECT_LT(relative_distance(tokens, path[step]), 1e-4) << step;
                  ++step;
                });
  EXPECT_EQ(step, steps);
  const std::vector<double> scales = doubles_of(m.expected, "cfg");
  const std::vector<std::int64_t> unknown = unknown_after(n, steps);
  for (std::size_t s = 0; s < scales.size(); ++s) {
    EXPECT_NEAR(guidance_after(sampling, unknown[s], n), scales[s], 1e-12) << s;
    EXPECT_EQ(m("revealed")[static_cast<std::int64_t>(s)][0].sum().item<std::int64_t>(),
              (s == 0 ? n : unknown[s - 1]) - unknown[s]);
  }
}

TEST(MarMasked, AsManyStepsAsTokensDrawOneEach) {
  const std::vector<std::int64_t> unknown = unknown_after(256, 256);
  for (std::size_t s = 0; s < unknown.size(); ++s) {
    EXPECT_EQ(unknown[s], 255 - static_cast<std::int64_t>(s));
  }
  EXPECT_THROW(unknown_after(16, 17), std::invalid_argument);
  EXPECT_THROW(unknown_after(16, 0), std::invalid_argument);
}

TEST(MarMasked, RandomOrdersAreUniform) {
  // Places of token 0 in 8,000 orders of 8: chi-square with 7 degrees, 40 is passed by chance with
  // probability 1e-6. The identity, which is no random order, is the control.
  const auto chi_square = [](const auto& order_of) {
    std::array<double, 8> counts{};
    for (std::uint32_t i = 0; i < 8000; ++i) {
      const std::vector<std::int64_t> order = order_of(i);
      counts[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())] +=
          1.0;
    }
    double sum = 0.0;
    for (const double n : counts) sum += (n - 1000.0) * (n - 1000.0) / 1000.0;
    return sum;
  };
  EXPECT_LT(
      chi_square([](std::uint32_t i) { return random_order(8, RngKey{.seed = 3, .request = i}); }),
      40.0);
  EXPECT_GT(
      chi_square([](std::uint32_t) { return std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}; }),
      40.0);
}

TEST(MarMasked, DecoderOfItsLatentsIsTheReferences) {
  const at::NoGradGuard no_grad;
  const auto folder = std::filesystem::path(FORERUN_SOURCE_DIR) / "tests/data/mar/kl";
  const VaeDecoder vae = load_vae(folder);
  EXPECT_EQ(vae.config.scaling_factor, 0.2325);
  const Safetensors expected = load_safetensors(folder / "expected.safetensors");
  EXPECT_LT(relative_distance(decode(vae, masked_value(expected, "latents")),
                              masked_value(expected, "image")),
            1e-5);
}

}  // namespace
}  // namespace forerun
