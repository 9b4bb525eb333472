// Images beside each other in an engine: each is the image of its seed and number.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "forerun/engine.h"

namespace forerun {
namespace {

const std::string kImages = FORERUN_SOURCE_DIR "/models/fashion-mnist";

TEST(EngineImages, JoinLeaveAndAreTheImagesOfARunAlone) {
  const DiffusionModel model =
      DiffusionModel::load(kImages + "/dit", DitDialect::kReference, Precision::kF32);
  ImageOptions o;
  o.steps = 12;
  o.seed = 3;
  o.max_draft = 5;
  o.fixed_draft = true;
  o.pictures = false;
  const std::vector<std::int64_t> labels = {3, 7, 1, 3};
  for (const char* name : {"none", "asd"}) {
    const ImageDrafter drafter = ImageDrafter::load(name, model);
    const ImageRun alone = generate_images(model, drafter, labels, o);
    Engine engine({.max_active = 2});
    std::map<RequestId, std::size_t> index;
    std::map<RequestId, std::vector<float>> values;
    std::size_t previews = 0;
    RequestId cancelled = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      ImageOptions one = o;
      one.first = static_cast<std::uint32_t>(i);
      const RequestId id = engine.submit(model, drafter, labels[i], one, i == 0 ? 4 : 0);
      index[id] = i;
      if (i == 2) cancelled = id;
      if (i == 1) engine.step();
    }
    for (int steps = 0; engine.busy(); ++steps) {
      if (steps == 1) engine.cancel(cancelled);
      for (const Event& event : engine.step()) {
        previews += std::holds_alternative<ImagePreview>(event) ? 1 : 0;
        const auto* done = std::get_if<ImageFinished>(&event);
        if (done == nullptr) continue;
        EXPECT_EQ(done->complete, done->id != cancelled);
        if (done->complete) values[done->id] = done->values;
      }
    }
    ASSERT_EQ(values.size(), 3U) << name;
    EXPECT_GE(previews, 3U);
    for (const auto& [id, v] : values) {
      const auto& expected = alone.values[index[id]];
      ASSERT_EQ(v.size(), expected.size());
      // Passes of other shapes round differently.
      for (std::size_t d = 0; d < v.size(); ++d) EXPECT_NEAR(v[d], expected[d], 2e-3) << name;
    }
  }
}

TEST(EngineImages, RefuseWhatTheModelLacks) {
  const DiffusionModel model =
      DiffusionModel::load(kImages + "/dit", DitDialect::kReference, Precision::kF32);
  Engine engine;
  EXPECT_THROW(engine.submit(model, ImageDrafter::load("none", model), 10, ImageOptions()),
               UsageError);
  EXPECT_FALSE(engine.busy());
}

}  // namespace
}  // namespace forerun
