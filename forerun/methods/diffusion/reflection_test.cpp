// The coupling of Gaussian steps against NumPy (tools/make_dit_values.py).
#include <gtest/gtest.h>

#include <cstring>

#include "forerun/core/gaussian.h"
#include "forerun/core/latent.h"
#include "forerun/formats/safetensors.h"
#include "forerun/formats/whole_numbers.h"
#include "tests/support/float64_values.h"

namespace forerun {
namespace {

// NumPy's reflection of the same drafts by the same uniforms, in float64.
TEST(Reflection, IsTheReferences) {
  const Safetensors file =
      load_safetensors(FORERUN_SOURCE_DIR "/tests/data/dit/sampler.safetensors");
  const auto floats = [&](const char* name) {
    const auto bytes = file.find(name)->bytes;
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  };
  const auto m_hat = floats("coupling_m_hat"), m = floats("coupling_m"), xi = floats("coupling_xi"),
             u = floats("coupling_u"), sigma = floats("coupling_sigma");
  const auto x = doubles_of(file, "coupling_x");
  const auto accept = *whole_numbers(*file.find("coupling_accept"));
  constexpr std::size_t kDim = 16;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const std::span<const float> draft(m_hat.data() + i * kDim, kDim),
        target(m.data() + i * kDim, kDim);
    Latent drafted(kDim);
    for (std::size_t j = 0; j < kDim; ++j) drafted[j] = draft[j] + sigma[i] * xi[i * kDim + j];
    const auto out = reflect({target, sigma[i]}, {draft, sigma[i]}, drafted, u[i], 1.0);
    EXPECT_EQ(out.accepted, accept[i] != 0) << i;
    for (std::size_t j = 0; j < kDim; ++j) EXPECT_NEAR(out.value[j], x[i * kDim + j], 1e-5) << i;
    kept += out.accepted ? 1U : 0U;
  }
  EXPECT_GT(kept, 10U);
  EXPECT_LT(kept, 54U);
}

}  // namespace
}  // namespace forerun
