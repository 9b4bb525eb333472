// What lies in models/ is what its cards say: it loads, belongs together, and drafts well.
#include <gtest/gtest.h>

#include <string>

#include "forerun/image.h"

namespace forerun {
namespace {

const std::string kModels = FORERUN_SOURCE_DIR "/models/fashion-mnist/";

TEST(ShippedImages, AreDraftedFarAheadAndAsExact) {
  const Precision precision = auto_image_precision().precision;
  const DiffusionModel model =
      DiffusionModel::load(kModels + "dit", DitDialect::kReference, precision);
  EXPECT_EQ(model.classes(), 10);
  EXPECT_EQ(model.side(), 32);
  const ImageDrafter drafter = ImageDrafter::load("free:" + kModels + "free", model);
  EXPECT_LT(drafter.cost(), 1.0 / 6.0);
  ImageOptions o;
  o.max_draft = 7;
  o.fixed_draft = true;
  o.seed = 11;
  const std::vector<std::int64_t> labels = {3, 9};
  EXPECT_GT(generate_images(model, drafter, labels, o).efficiency(), 4.0);
  const Certificate c = certify_images(model, drafter, labels, o);
  EXPECT_TRUE(c.passed()) << c.report.z;
  EXPECT_GT(c.report.drafted, 1000U);
}

}  // namespace
}  // namespace forerun
