#include "forerun/models/mar/mar.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <tuple>

#include "forerun/base/format_error.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/mar/init_mar.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/models/mar/mar_head.h"
#include "forerun/models/mar/mar_tokens.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

const fs::path kMarValues = fs::path(FORERUN_SOURCE_DIR) / "tests/data/mar";

at::Tensor tensor_in(const Safetensors& file, const char* name) {
  const TensorView* t = file.find(name);
  if (t == nullptr) throw std::out_of_range(name);
  at::Tensor out = at::empty(t->shape, t->dtype == DType::kI64 ? at::kLong : at::kFloat);
  std::memcpy(out.mutable_data_ptr(), t->bytes.data(), t->bytes.size());
  return out;
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

std::span<const float> span_of(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

MarConfig sampled_config() {
  MarConfig c;
  c.side = 16;
  c.classes = 3;
  c.hidden = 64;
  c.heads = 4;
  c.mlp = 128;
  c.depth = 2;
  c.head_width = 64;
  c.head_blocks = 2;
  c.x0_low = -2.0;
  c.x0_high = 2.0;
  c.calibration = {.times = {0, 999}, .errors = {0.01, 1.0}};
  return c;
}

// With modulations that matter: a fresh network's are 0.
Mar sampled_mar(const MarConfig& config) {
  Mar m = random_mar(config, 5);
  for (const ModelWeight& w : weights(m)) *w.tensor += at::randn(w.shape) * 0.05;
  return m;
}

class MarParity : public ::testing::TestWithParam<const char*> {
 protected:
  const fs::path folder = kMarValues / GetParam();
  const Safetensors expected = load_safetensors(folder / "expected.safetensors");
  const Mar model = load_mar(folder);
  const MarConfig& c = model.config;
};

TEST_P(MarParity, BackboneAndHeadAreTheReferences) {
  const at::NoGradGuard no_grad;
  const at::Tensor z =
      run_causal(model, tensor_in(expected, "tokens"), tensor_in(expected, "label"));
  EXPECT_LT(relative_error(z, tensor_in(expected, "z")), 1e-5);
  const at::Tensor out =
      run_head(model.head, c, tensor_in(expected, "x").unsqueeze(1), tensor_in(expected, "time"),
               tensor_in(expected, "z").reshape({-1, c.hidden}));
  EXPECT_LT(relative_error(out.squeeze(1), tensor_in(expected, "output")), 1e-5);
}

TEST_P(MarParity, PackedBackboneIsTheReferences) {
  const MarNetwork network(model);
  const at::Tensor tokens = tensor_in(expected, "tokens"), label = tensor_in(expected, "label");
  const at::Tensor z = tensor_in(expected, "z");
  for (std::int64_t b = 0; b < 2; ++b) {
    MarCache cache = network.cache(label[b].item<std::int64_t>());
    const at::Tensor known = tokens[b].narrow(0, 0, c.tokens() - 1).contiguous();
    const MarNetwork::Rows rows{&cache, span_of(known)};
    const std::vector<float> out = network.conditions(std::span(&rows, 1));
    const at::Tensor wanted =
        at::linear(z[b], model.head.condition.weight, model.head.condition.bias);
    EXPECT_LT(relative_error(at::tensor(out).view_as(wanted), wanted), 1e-5);
  }
}

TEST_P(MarParity, PackedHeadIsTheReferences) {
  MarSampling sampling{.steps = 100, .final_step = MarFinalStep::kNoisy};
  if (c.calibration.empty()) sampling.variance = MarVariance::kLearned;
  const auto network = std::make_shared<const MarNetwork>(model);
  const MarHead head(network, sampling);
  const at::Tensor z = tensor_in(expected, "z").reshape({-1, c.hidden}).contiguous(),
                   x = tensor_in(expected, "x");
  const std::vector<float> conditions = network->conditions_of(span_of(z));
  const std::int64_t width = network->condition_width();
  for (const std::int64_t k : {0, 1, 40, 99}) {
    const MarStep& s = head.schedule().step(k);
    const at::Tensor time = at::full({x.size(0)}, s.time, at::kLong);
    const at::Tensor y =
        run_head(model.head, c, x.unsqueeze(1), time, z).squeeze(1).to(at::kDouble);
    at::Tensor x0 = s.x0_x * x.to(at::kDouble) + s.x0_output * y.narrow(1, 0, c.dim());
    if (c.bounded()) x0 = x0.clamp(c.x0_low, c.x0_high);
    const at::Tensor wanted = s.posterior_x0 * x0 + s.posterior_x * x;
    for (std::int64_t r = 0; r < 5; ++r) {
      const MarHead::Input in{conditions.data() + r * width};
      const auto prepared = head.prepare(std::span(&in, 1));
      const MarHead::Row row{prepared.data(), x.const_data_ptr<float>() + r * c.dim(), k};
      const MarHead::Output out = head.run(std::span(&row, 1));
      EXPECT_LT(relative_error(at::tensor(out.means), wanted[r].to(at::kFloat)), 1e-4) << k;
      if (!head.learned_sigma()) continue;
      const at::Tensor share = (y[r].narrow(0, c.dim(), c.dim()) + 1.0) / 2.0;
      const at::Tensor sigma = (0.5 * (share * s.log_beta + (1.0 - share) * s.log_posterior)).exp();
      EXPECT_LT(relative_error(at::tensor(out.sigmas), sigma.to(at::kFloat)), 1e-4) << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, MarParity, ::testing::Values("causal", "causal_joint"));

class MarRows : public ::testing::TestWithParam<std::tuple<MarModulation, HeadPrecision>> {
 protected:
  MarRows() {
    MarConfig config = sampled_config();
    config.modulation = std::get<0>(GetParam());
    const bool bf16 = std::get<1>(GetParam()) == HeadPrecision::kBF16;
    // Where bf16 is refused the rows are those of float32, and SetUp skips.
    const HeadPrecision can =
        bf16 && cpu_features().int8() ? HeadPrecision::kBF16 : HeadPrecision::kF32;
    network = std::make_shared<const MarNetwork>(sampled_mar(config), can);
    skip = bf16 && !cpu_features().int8();
    head = std::make_unique<MarHead>(network, MarSampling{.steps = 10});
  }
  ~MarRows() override { at::set_num_threads(1); }
  void SetUp() override {
    if (skip) GTEST_SKIP() << "no kernels for bf16";
  }
  const MarConfig& config() const { return network->config(); }

  std::shared_ptr<const MarNetwork> network;
  std::unique_ptr<MarHead> head;
  bool skip = false;
};

TEST_P(MarRows, ConditionsAreTheSameBitsInOnePassAndTokenByToken) {
  const at::Tensor tokens = at::randn({config().tokens() - 1, config().dim()});
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    MarCache whole = network->cache(1), other = network->cache(2), single = network->cache(1);
    const std::array both{MarNetwork::Rows{&other, span_of(tokens.narrow(0, 0, 5))},
                          MarNetwork::Rows{&whole, span_of(tokens)}};
    const std::vector<float> out = network->conditions(both);
    const auto width = static_cast<std::size_t>(network->condition_width());
    std::vector<float> one_by_one;
    for (std::int64_t i = -1; i < tokens.size(0); ++i) {
      const at::Tensor token = i < 0 ? at::empty({0}) : tokens[i];
      const MarNetwork::Rows row{&single, span_of(token)};
      const std::vector<float> next = network->conditions(std::span(&row, 1));
      ASSERT_EQ(next.size(), width);
      one_by_one.insert(one_by_one.end(), next.begin(), next.end());
    }
    const std::vector<float> second(out.begin() + static_cast<std::ptrdiff_t>(6 * width),
                                    out.end());
    EXPECT_EQ(second, one_by_one) << threads;
  }
}

TEST_P(MarRows, TruncatedCacheGoesOnAsIfTheRestHadNotBeen) {
  const at::Tensor tokens = at::randn({8, config().dim()});
  MarCache cache = network->cache(0), fresh = network->cache(0);
  const auto feed = [&](MarCache& to, std::int64_t from, std::int64_t n) {
    const at::Tensor part = tokens.narrow(0, from, n).contiguous();
    const MarNetwork::Rows rows{&to, span_of(part)};
    return network->conditions(std::span(&rows, 1));
  };
  feed(cache, 0, 6);
  cache.truncate(2);
  EXPECT_EQ(cache.tokens(), 2);
  const std::vector<float> after = feed(cache, 6, 2);
  feed(fresh, 0, 2);
  EXPECT_EQ(after, feed(fresh, 6, 2));
}

TEST_P(MarRows, MeansAreTheSameBitsInEveryMixtureOfRows) {
  const std::int64_t n = 37, dim = config().dim();
  const at::Tensor z = at::randn({n, network->condition_width()}), none = at::randn_like(z),
                   x = at::randn({n, dim});
  std::vector<MarHead::Input> inputs;
  for (std::int64_t i = 0; i < n; ++i) {
    inputs.push_back({z[i].const_data_ptr<float>(),
                      i % 3 == 0 ? none[i].const_data_ptr<float>() : nullptr, 2.0});
  }
  const std::vector<MarCondition> prepared = head->prepare(inputs);
  std::vector<MarHead::Row> rows;
  for (std::int64_t i = 0; i < n; ++i) {
    rows.push_back({&prepared[static_cast<std::size_t>(i)], x[i].const_data_ptr<float>(),
                    i % head->transitions()});
  }
  const std::vector<float> all = head->means(rows);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    EXPECT_EQ(head->means(rows), all) << threads;
    for (const std::size_t group : {1U, 2U, 5U}) {
      for (std::size_t from = 0; from + group <= rows.size(); from += group) {
        const auto alone = head->prepare(std::span(inputs).subspan(from, group));
        std::vector<MarHead::Row> some(rows.begin() + static_cast<std::ptrdiff_t>(from),
                                       rows.begin() + static_cast<std::ptrdiff_t>(from + group));
        for (std::size_t i = 0; i < group; ++i) some[i].condition = &alone[i];
        const std::vector<float> out = head->means(some);
        EXPECT_TRUE(std::equal(out.begin(), out.end(),
                               all.begin() + static_cast<std::ptrdiff_t>(from) * dim))
            << group << " " << from << " " << threads;
      }
    }
  }
}

TEST_P(MarRows, GuidanceOfOneIsTheNetworkItselfAndTwoLeavesItByTheDifference) {
  const at::Tensor z = at::randn({network->condition_width()}), none = at::randn_like(z),
                   x = at::randn({config().dim()});
  const auto mean = [&](double guidance, const at::Tensor& given, const at::Tensor& without) {
    const MarHead::Input in{given.const_data_ptr<float>(), without.const_data_ptr<float>(),
                            guidance};
    const auto prepared = head->prepare(std::span(&in, 1));
    const MarHead::Row row{prepared.data(), x.const_data_ptr<float>(), 4};
    return at::tensor(head->means(std::span(&row, 1)));
  };
  const at::Tensor given = mean(1.0, z, none), without = mean(1.0, none, z);
  EXPECT_TRUE(mean(2.0, z, z).allclose(given, 1e-5, 1e-6));
  // Inside the bounds of x_0 a mean is linear in what is predicted.
  const at::Tensor inside = (2.0 * given - without);
  EXPECT_LT((mean(2.0, z, none) - inside).abs().median().item<double>(), 1e-4);
  EXPECT_GT((given - without).abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Modulations, MarRows,
    ::testing::Combine(::testing::Values(MarModulation::kSeparate, MarModulation::kJoint),
                       ::testing::Values(HeadPrecision::kF32, HeadPrecision::kBF16)));

// In bf16 a head's means are those of float32 up to the rounding of states and weights to 8 bits.
TEST(MarHead, InBf16IsNearFloat32) {
  if (!cpu_features().int8()) GTEST_SKIP() << "no kernels for bf16";
  at::manual_seed(3);
  const Mar model = sampled_mar(sampled_config());
  const MarSampling sampling{.steps = 10};
  const MarHead exact(std::make_shared<const MarNetwork>(model), sampling);
  const MarHead rounded(std::make_shared<const MarNetwork>(model, HeadPrecision::kBF16), sampling);
  const at::Tensor z = at::randn({model.config.head_width}), x = at::randn({exact.dim()});
  const MarHead::Input in{z.const_data_ptr<float>()};
  const auto given = exact.prepare(std::span(&in, 1)), again = rounded.prepare(std::span(&in, 1));
  for (std::int64_t k = 0; k < exact.transitions(); ++k) {
    const MarHead::Row a{given.data(), x.const_data_ptr<float>(), k};
    const MarHead::Row b{again.data(), x.const_data_ptr<float>(), k};
    const double error = relative_error(at::tensor(rounded.means(std::span(&b, 1))),
                                        at::tensor(exact.means(std::span(&a, 1))));
    EXPECT_LT(error, 1e-2) << k;
    EXPECT_GT(error, 0.0) << k;
  }
}

TEST(MarNetwork, RefusesWhatDoesNotFit) {
  const MarNetwork network(sampled_mar(sampled_config()));
  EXPECT_THROW(network.cache(4), std::invalid_argument);
  EXPECT_THROW(network.cache(-1), std::invalid_argument);
  MarCache cache = network.cache(3);
  const std::vector<float> part(7), all(16 * 16);
  const MarNetwork::Rows halves{&cache, part}, last{&cache, all};
  EXPECT_THROW(network.conditions(std::span(&halves, 1)), std::invalid_argument);
  EXPECT_THROW(network.conditions(std::span(&last, 1)), std::invalid_argument);
  EXPECT_TRUE(cache.empty());
}

TEST(MarTokens, ImageOfTheTokensIsTheImage) {
  MarConfig c = sampled_config();
  c.channels = 2;
  c.mean = -0.3;
  c.scale = 0.6;
  c.order = scattered_order(c.patches_per_side());
  const at::Tensor image = at::rand({2, 16, 16}) * 2.0 - 1.0;
  const std::vector<float> tokens = mar_tokens(c, span_of(image));
  EXPECT_TRUE(at::tensor(mar_image(c, tokens)).view_as(image).allclose(image, 1e-5, 1e-6));
  // Token 1, coordinate (channel 1, row 2, column 3).
  const std::int64_t patch = c.order[1], top = patch / 4 * 4, left = patch % 4 * 4;
  EXPECT_FLOAT_EQ(tokens[32 + 16 + 2 * 4 + 3],
                  (image[1][top + 2][left + 3].item<float>() + 0.3F) / 0.6F);
  EXPECT_THROW(mar_image(c, std::span(tokens).first(33)), std::invalid_argument);
}

TEST(MarFile, ASavedNetworkIsLoadedAsItIs) {
  const testing::TempFolder folder;
  MarConfig c = sampled_config();
  c.order = scattered_order(4);
  c.follows = "xxh3:1";
  const Mar m = sampled_mar(c);
  save_mar(folder.path(), m, nullptr, at::kFloat);
  const Mar back = load_mar(folder.path());
  EXPECT_EQ(back.config, c);
  EXPECT_EQ(digest_of(back), digest_of(m));
  EXPECT_TRUE(holds_mar(folder.path()));
  EXPECT_FALSE(holds_mar(kMarValues));
}

std::string message_of(const fs::path& path) {
  try {
    load_mar(path);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "";
}

TEST(MarFile, SaysWhatIsWrong) {
  const testing::TempFolder folder;
  const auto refusal = [&](const std::string& content) {
    return message_of(folder.write("file.pth", content));
  };
  EXPECT_NE(refusal("PK\x03\x04zip").find("pickle"), std::string::npos);
  EXPECT_NE(refusal("\x80\x02}q").find("pickle"), std::string::npos);
  EXPECT_NE(refusal("").find("folder of config.json"), std::string::npos);
  save_mar(folder.path(), sampled_mar(sampled_config()));
  fs::resize_file(folder.path() / "model.safetensors",
                  fs::file_size(folder.path() / "model.safetensors") - 10);
  EXPECT_NE(message_of(folder.path()), "");
}

}  // namespace
}  // namespace forerun
