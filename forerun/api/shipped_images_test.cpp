// What lies in models/ is what its cards say: it loads, belongs together, and drafts well.
#include <gtest/gtest.h>

#include <string>

#include "forerun/image.h"
#include "forerun/token_image.h"

namespace forerun {
namespace {

const std::string kShipped = FORERUN_SOURCE_DIR "/models/";
const std::string kModels = kShipped + "fashion-mnist/";

TEST(ShippedImages, AreDraftedFarAheadAndAsExact) {
  const DiffusionModel model =
      DiffusionModel::load(kModels + "dit", DitDialect::kReference, kAutoPrecision);
  EXPECT_EQ(model.classes(), 10);
  EXPECT_EQ(model.side(), 32);
  const ImageDrafter drafter = ImageDrafter::load("free:" + kModels + "free", model);
  EXPECT_LT(drafter.cost(), 1.0 / 6.0);
  ImageOptions o;
  o.max_draft = 7;
  o.fixed_draft = true;
  o.seed = 11;
  const std::vector<std::int64_t> labels = {3, 9};
  const Certificate c = certify_images(model, drafter, labels, o);
  EXPECT_TRUE(c.passed()) << c.report.z;
  EXPECT_GT(c.counterfactuals.places, 8U);  // seeded places may meet
  EXPECT_GT(c.statistics.tau(), 4.0);
  EXPECT_GT(c.report.drafted, 1000U);
}

// Shares of kept drafts with guidance 1, well below those of the cards, which count more images.
TEST(ShippedTokenImages, AreDraftedAsTheirCardsSay) {
  struct Pair {
    const char* folder;
    std::int64_t classes;
    double kept;
  };
  for (const Pair& pair : {Pair{"fashion-mnist/", 10, 0.55}, Pair{"emoji/", 9, 0.2}}) {
    const TokenImageModel model =
        TokenImageModel::load(kShipped + pair.folder + "mar", kAutoPrecision);
    EXPECT_EQ(model.classes(), pair.classes);
    const ImageDrafter drafter =
        ImageDrafter::load("cspd:" + kShipped + pair.folder + "cspd", model);
    EXPECT_LT(drafter.cost(), 0.5);
    TokenImageOptions o;
    o.max_draft = 4;
    o.fixed_draft = true;
    o.seed = 4;
    const std::vector<std::int64_t> labels = {3, 6};
    EXPECT_GT(generate_images(model, drafter, labels, o).statistics.acceptance(), pair.kept)
        << pair.folder;
  }
}

}  // namespace
}  // namespace forerun
