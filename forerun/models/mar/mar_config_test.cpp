#include "forerun/models/mar/mar_config.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/support/noisy_mar.h"

namespace forerun {
namespace {

using testing::small_mar;

TEST(MarConfig, SizesOfThePublishedNetworksAreTheirs) {
  // LTH14/mar: 208, 479 and 943 million; backbone and head from the shapes of their tensors.
  struct Size {
    std::int64_t hidden, depth, heads, blocks, width;
    double backbone, head;
  };
  for (const Size& s :
       {Size{768, 12, 12, 6, 1024, 172.2, 35.7}, Size{1024, 16, 16, 8, 1280, 406.1, 72.2},
        Size{1280, 20, 16, 12, 1536, 791.2, 151.2}}) {
    MarConfig c;
    c.form = MarForm::kMasked;
    c.side = 16;
    c.channels = 16;
    c.patch = 1;
    c.classes = 1000;
    c.hidden = s.hidden;
    c.heads = s.heads;
    c.mlp = 4 * s.hidden;
    c.depth = c.decoder_depth = s.depth;
    c.buffer = 64;
    c.head_blocks = s.blocks;
    c.head_width = s.width;
    c.prediction = MarPrediction::kNoise;
    c.modulation = MarModulation::kJoint;
    check_mar_config(c);
    const MarSize size = size_of(c);
    EXPECT_NEAR(static_cast<double>(size.backbone) * 1e-6, s.backbone, 0.06);
    EXPECT_NEAR(static_cast<double>(size.head) * 1e-6, s.head, 0.06);
  }
}

TEST(MarConfig, RefusesWhatNoNetworkHas) {
  const auto refused = [](const auto& change) {
    MarConfig c = small_mar();
    change(c);
    EXPECT_THROW(check_mar_config(c), std::invalid_argument);
  };
  check_mar_config(small_mar());
  refused([](MarConfig& c) { c.patch = 3; });
  refused([](MarConfig& c) { c.heads = 5; });
  refused([](MarConfig& c) { c.depth = 0; });
  refused([](MarConfig& c) { c.hidden = std::int64_t{1} << 40; });
  refused([](MarConfig& c) { c.order = {0, 1}; });
  refused([](MarConfig& c) { c.order.assign(16, 0); });
  refused([](MarConfig& c) { c.scale = 0.0; });
  refused([](MarConfig& c) { c.calibration.errors[0] = -1.0; });
  refused([](MarConfig& c) { c.calibration.times = {5, 5}; });
  refused([](MarConfig& c) { c.decoder_depth = 2; });
}

TEST(MarConfig, SaysHowTokensDiffer) {
  const MarConfig one = small_mar();
  MarConfig other = one;
  other.hidden = 64;
  EXPECT_EQ(why_other_tokens(other, one), "");
  other.patch = 2;
  EXPECT_NE(why_other_tokens(other, one).find("1 x 2 x 2"), std::string::npos);
  other = one;
  other.order = scattered_order(4);
  EXPECT_NE(why_other_tokens(other, one), "");
}

}  // namespace
}  // namespace forerun
