#include "forerun/models/dit/dit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "forerun/base/result.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/internal/weight_reader.h"
#include "tests/support/noisy_dit.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

const fs::path kValues = fs::path(FORERUN_SOURCE_DIR) / "tests/data/dit";

at::Tensor tensor_of(const Safetensors& file, const char* name) {
  const TensorView* t = file.find(name);
  if (t == nullptr) throw std::out_of_range(name);
  const auto type = t->dtype == DType::kI64 ? at::kLong : at::kFloat;
  at::Tensor out = at::empty(t->shape, type);
  std::memcpy(out.mutable_data_ptr(), t->bytes.data(), t->bytes.size());
  return out;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

struct Published {
  const char *folder, *model;
  DitConventions conventions;
};

class DitParity : public ::testing::TestWithParam<Published> {
 protected:
  const Safetensors expected =
      load_safetensors(kValues / GetParam().folder / "expected.safetensors");
  const Dit model = load_dit(kValues / GetParam().model, GetParam().conventions);
};

TEST_P(DitParity, FeaturesAndOutputAreTheirs) {
  const DitOutput out =
      run_dit(model, tensor_of(expected, "x"), tensor_of(expected, "t"), tensor_of(expected, "y"));
  EXPECT_LT(relative(out.feature, tensor_of(expected, "f")), 1e-5);
  const at::Tensor whole = tensor_of(expected, "output");
  const std::int64_t channels = model.config.channels;
  EXPECT_LT(relative(out.noise, whole.narrow(1, 0, channels)), 1e-5);
  ASSERT_EQ(out.variance.defined(), model.config.learned_sigma);
  if (out.variance.defined()) {
    EXPECT_LT(relative(out.variance, whole.narrow(1, channels, channels)), 1e-5);
  }
}

// Each row is computed as if alone.
TEST_P(DitParity, APassDoesNotMixItsBatch) {
  const at::Tensor x = tensor_of(expected, "x"), t = tensor_of(expected, "t"),
                   y = tensor_of(expected, "y");
  const DitOutput all = run_dit(model, x, t, y);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    const DitOutput one = run_dit(model, x.narrow(0, i, 1), t.narrow(0, i, 1), y.narrow(0, i, 1));
    EXPECT_LT(relative(one.noise, all.noise.narrow(0, i, 1)), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Dit, DitParity,
    ::testing::Values(Published{"reference", "reference", DitConventions::kReference},
                      Published{"reference_pixel", "reference_pixel", DitConventions::kReference},
                      Published{"diffusers", "diffusers/transformer", DitConventions::kDiffusers}),
    [](const auto& test) { return std::string(test.param.folder); });

// The published size, with random weights: FORERUN_DIT_XL names the output of
// `tools/make_dit_values.py --xl FOLDER` (5 GB, too large for the repository).
TEST(Dit, AtFullSizeIsTheReferences) {
  const char* const folder = std::getenv("FORERUN_DIT_XL");
  if (folder == nullptr) GTEST_SKIP() << "FORERUN_DIT_XL is not set";
  const auto check = [&](const fs::path& values, const fs::path& model, DitConventions how) {
    const Safetensors e = load_safetensors(fs::path(folder) / values);
    const at::NoGradGuard no_autograd;
    const Dit dit = load_dit(fs::path(folder) / model, how);
    const DitOutput out = run_dit(dit, tensor_of(e, "x"), tensor_of(e, "t"), tensor_of(e, "y"));
    const double off = relative(at::cat({out.noise, out.variance}, 1), tensor_of(e, "output"));
    RecordProperty(values.parent_path().string(), std::to_string(off));
    std::cout << values.parent_path() << ": relative difference " << off << "\n";
    EXPECT_LT(off, 1e-4);
  };
  check("reference/expected.safetensors", "reference", DitConventions::kReference);
  check("diffusers/expected.safetensors", "diffusers/transformer", DitConventions::kDiffusers);
}

// The two conventions differ by far more than the bounds above, so the option has an effect.
TEST(Dit, ConventionsDiffer) {
  const Safetensors e = load_safetensors(kValues / "diffusers/expected.safetensors");
  const Dit model = load_dit(kValues / "diffusers", DitConventions::kReference);
  const DitOutput out = run_dit(model, tensor_of(e, "x"), tensor_of(e, "t"), tensor_of(e, "y"));
  EXPECT_GT(relative(out.noise, tensor_of(e, "output").narrow(1, 0, 4)), 1e-2);
}

DitConfig small() { return testing::small_dit(8, 4); }

TEST(Dit, BeginsAsZero) {
  const Dit model = random_dit(small(), 1);
  const DitOutput out = run_dit(model, at::randn({2, 1, 8, 8}), at::tensor({5, 900}, at::kLong),
                                at::tensor({0, 3}, at::kLong));
  EXPECT_EQ(out.noise.abs().max().item<double>(), 0.0);
}

TEST(Dit, IsDifferentiableInEveryWeight) {
  Dit model = random_dit(small(), 2);
  for (const ModelWeight& w : weights(model)) {
    // Away from the zeros at the start of training, where some gradients vanish.
    w.tensor->add_(at::randn_like(*w.tensor), 0.1);
    w.tensor->requires_grad_(true);
  }
  const at::Tensor x = at::randn({3, 1, 8, 8}), t = at::tensor({5, 900, 0}, at::kLong),
                   y = at::tensor({0, 3, 1}, at::kLong);
  const at::Tensor slope = at::randn({3, 1, 8, 8});
  const auto loss = [&] { return (run_dit(model, x, t, y).noise * slope).sum(); };
  loss().backward();
  const at::NoGradGuard no_autograd;
  for (const ModelWeight& w : weights(model)) {
    ASSERT_TRUE(w.tensor->grad().defined()) << w.name;
    const at::Tensor direction = at::randn_like(*w.tensor);
    constexpr double kStep = 3e-3;
    const double before = loss().item<double>();
    w.tensor->add_(direction, kStep);
    const double after = loss().item<double>();
    w.tensor->add_(direction, -2 * kStep);
    const double below = loss().item<double>();
    w.tensor->add_(direction, kStep);
    const double slope_there = (w.tensor->grad() * direction).sum().item<double>();
    EXPECT_NEAR((after - below) / (2 * kStep), slope_there, 2e-2 * (std::abs(slope_there) + 1.0))
        << w.name << " " << before;
  }
}

TEST(Dit, OtherShapesAreRefused) {
  const Dit m = random_dit(small(), 1);
  const auto times = [](std::int64_t n) { return at::zeros({n}, at::kLong); };
  EXPECT_THROW(run_dit(m, at::zeros({1, 2, 8, 8}), times(1), times(1)), std::invalid_argument);
  EXPECT_THROW(run_dit(m, at::zeros({2, 1, 8, 8}), times(1), times(2)), std::invalid_argument);
  EXPECT_THROW(run_dit(m, at::zeros({1, 1, 8, 8}), times(1), times(1) + 4), std::invalid_argument);
  EXPECT_THROW(run_dit(m, at::zeros({1, 1, 8, 8}), times(1), times(1) - 1), std::invalid_argument);
}

TEST(DitFile, ComesBackAsItWasWritten) {
  const testing::TempFolder folder;
  Dit model = random_dit(small(), 3);
  for (const ModelWeight& w : weights(model))
    w.tensor->copy_(at::randn_like(*w.tensor).to(at::kBFloat16));
  save_dit(folder.path() / "dit", model, {{"steps", 7}});
  Dit back = load_dit(folder.path() / "dit");
  EXPECT_EQ(back.config, model.config);
  const auto theirs = weights(back);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_TRUE(at::equal(*theirs[i].tensor, *weights(model)[i].tensor)) << theirs[i].name;
  }
}

// As in a converted checkpoint: with the positions, without a config.
TEST(DitFile, SizesAreReadFromABareFile) {
  const testing::TempFolder folder;
  DitConfig c = small();
  c.hidden = 64;  // heads of 64, as the published sizes have
  c.heads = 1;
  c.learned_sigma = true;
  Dit model = random_dit(c, 4);
  std::vector<internal::NamedTensor> tensors = {{"pos_embed", dit_positions(c).unsqueeze(0)}};
  for (const ModelWeight& w : weights(model)) {
    const bool patches = w.tensor == &model.patches.weight;
    tensors.push_back({w.name, patches ? w.tensor->view({64, 1, 4, 4}) : *w.tensor});
  }
  internal::save_model_folder(folder.path(), tensors, {});
  EXPECT_EQ(load_dit(folder.path() / "model.safetensors").config, c);
  // Without the positions its size is unknown.
  save_dit(folder.path() / "dit", model);
  EXPECT_THROW(load_dit(folder.path() / "dit/model.safetensors"), FormatError);
}

// The error is one line that names the fault.
class BrokenDit : public ::testing::Test {
 protected:
  const testing::TempFolder folder;
  std::string why(const std::string& config) {
    fs::create_directories(folder.path() / "dit");
    fs::copy_file(kValues / "reference/model.safetensors", folder.path() / "dit/model.safetensors",
                  fs::copy_options::skip_existing);
    std::ofstream(folder.path() / "dit/config.json") << config;
    try {
      load_dit(folder.path() / "dit");
    } catch (const FormatError& e) {
      return e.what();
    }
    return "";
  }
  static std::string sizes(const char* depth, const char* hidden, const char* heads,
                           const char* input) {
    return std::string(R"({"architecture": "dit", "depth": )") + depth + R"(, "hidden_size": )" +
           hidden + R"(, "num_heads": )" + heads +
           R"(, "patch_size": 2, "in_channels": 4, "num_classes": 5, "learn_sigma": true, )" +
           R"("input_size": )" + input + "}";
  }
};

TEST_F(BrokenDit, IsSaid) {
  EXPECT_EQ(why(sizes("3", "24", "2", "8")), "");
  EXPECT_NE(why(sizes("4", "24", "2", "8")).find("blocks.3"), std::string::npos);
  EXPECT_NE(why(sizes("2", "24", "2", "8")).find("unknown"), std::string::npos);
  EXPECT_NE(why(sizes("3", "32", "2", "8")).find("shape"), std::string::npos);
  EXPECT_NE(why(sizes("3", "24", "7", "8")).find("multiple of 7 heads"), std::string::npos);
  EXPECT_NE(why(sizes("3", "24", "2", "9")).find("patch size"), std::string::npos);
  EXPECT_NE(why(sizes("\"3\"", "24", "2", "8")).find("integer"), std::string::npos);
  EXPECT_NE(why(sizes("3", "9223372036854775807", "2", "8")).find("out of range"),
            std::string::npos);
  // 65536 patches of 65536 numbers: the table of positions would take 11 GB.
  EXPECT_NE(why(sizes("3", "65536", "2", "512")).find("too many"), std::string::npos);
  EXPECT_NE(why(sizes("3", "4096", "2", "128")).find("shape"), std::string::npos);
  EXPECT_NE(why(R"({"architecture": "llama"})").find("not a Diffusion"), std::string::npos);
  EXPECT_NE(why(R"({"_class_name": "UNet2DModel"})").find("UNet2DModel"), std::string::npos);
}

}  // namespace
}  // namespace forerun
