// Images made token by token: what every rule promises, on a small random model.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/token_image.h"
#include "tests/support/noisy_mar.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using forerun::testing::noisy_mar;
using forerun::testing::perturbed_mar;
using forerun::testing::small_mar;

// A target, a draft model and copies that are wrong in one way each.
struct Folders {
  Folders() {
    const Mar target = noisy_mar(small_mar());
    save(target, "target");
    save(perturbed_mar(target, 0.002), "draft");
    save(perturbed_mar(target, 0.005), "far");
    save(noisy_mar(small_mar(), 9), "garbage");
    Mar other = perturbed_mar(target, 0.1);
    other.config.follows = "another";
    save(other, "of-another");
    MarConfig coarse = small_mar();
    coarse.patch = 8;
    save(noisy_mar(coarse), "coarse");
  }
  void save(const Mar& model, const std::string& name) {
    save_mar(path(name), model, nullptr, at::kFloat);
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  forerun::testing::TempFolder folder;
};

const Folders& folders() {
  static const Folders made;
  return made;
}
TokenImageModel image_target() {
  return TokenImageModel::load(folders().path("target"), Precision::kF32);
}
ImageDrafter cspd(const TokenImageModel& model, const std::string& name) {
  return ImageDrafter::load("cspd:" + folders().path(name), model);
}
TokenImageOptions fixed(Rule rule, std::uint32_t drafts) {
  TokenImageOptions o;
  o.rule = rule;
  o.max_draft = drafts;
  o.fixed_draft = true;
  o.steps = 10;
  o.seed = 4;
  o.pictures = false;
  return o;
}
const std::vector<std::int64_t> kLabels = {0, 1, 2, 1, 0};

TEST(TokenImages, ADraftOfTheTargetMakesThePlainImage) {
  const TokenImageModel model = image_target();
  for (const double guidance : {1.0, 2.0}) {
    TokenImageOptions o = fixed(Rule::kStepwise, 3);
    o.guidance = guidance;
    o.linear_guidance = guidance > 1.0;
    const auto plain = generate_images(model, ImageDrafter::load("none", model), kLabels, o);
    EXPECT_EQ(plain.statistics.tau(), 1.0);
    for (const Rule rule : {Rule::kStepwise, Rule::kPath}) {
      o.rule = rule;
      const ImageRun run = generate_images(model, cspd(model, "target"), kLabels, o);
      EXPECT_EQ(run.statistics.acceptance(), 1.0);
      EXPECT_EQ(run.statistics.tau(), 4.0);
      EXPECT_EQ(run.values, plain.values);
    }
  }
}

TEST(TokenImages, AreTheSameInAnyBatchAndOnAnyThreads) {
  const TokenImageModel model = image_target();
  for (const char* name : {"none", "self", "cspd"}) {
    const ImageDrafter drafter =
        name == std::string("cspd") ? cspd(model, "draft") : ImageDrafter::load(name, model);
    TokenImageOptions o = fixed(Rule::kStepwise, 3);
    const ImageRun together = generate_images(model, drafter, kLabels, o);
    o.batch_size = 1;
    at::set_num_threads(2);
    const ImageRun alone = generate_images(model, drafter, kLabels, o);
    at::set_num_threads(1);
    EXPECT_EQ(together.values, alone.values) << name;
    o.first = 3;
    const std::vector<std::int64_t> one = {kLabels[3]};
    EXPECT_EQ(generate_images(model, drafter, one, o).values[0], together.values[3]) << name;
  }
}

TEST(TokenImages, ExactRulesPassTheCertificate) {
  const TokenImageModel model = image_target();
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 60; ++i) labels.push_back(i % 3);
  struct Case {
    ImageDrafter drafter;
    Rule rule;
    double guidance;
  };
  const std::vector<Case> cases = {{cspd(model, "draft"), Rule::kStepwise, 1.0},
                                   {cspd(model, "far"), Rule::kStepwise, 2.0},
                                   {cspd(model, "draft"), Rule::kPath, 1.0},
                                   {cspd(model, "garbage"), Rule::kStepwise, 1.0},
                                   {cspd(model, "garbage"), Rule::kPath, 1.0},
                                   {ImageDrafter::load("self", model), Rule::kStepwise, 1.0}};
  for (const Case& c : cases) {
    TokenImageOptions o = fixed(c.rule, 3);
    o.guidance = c.guidance;
    const Certificate certificate = certify_images(model, c.drafter, labels, o);
    EXPECT_TRUE(certificate.passed())
        << c.drafter.name() << " " << name_of(c.rule) << " z " << certificate.report.z << " ks "
        << certificate.report.ks_p << " energy " << certificate.report.energy_p << " expected "
        << certificate.expected_z << " violations " << certificate.counterfactuals.violations;
    EXPECT_GT(certificate.report.drafted, 1000U);
    EXPECT_EQ(certificate.counterfactuals.places, 16U);
  }
}

TEST(TokenImages, PublishedRulesFailTheCertificate) {
  const TokenImageModel model = image_target();
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 60; ++i) labels.push_back(i % 3);
  for (const Rule rule : {Rule::kPaper, Rule::kCode}) {
    const Certificate c = certify_images(model, cspd(model, "far"), labels, fixed(rule, 3));
    EXPECT_FALSE(c.passed()) << name_of(rule);
    EXPECT_GT(c.report.z, 5.0) << name_of(rule);
  }
}

TEST(TokenImages, SelfDraftingKeepsSomeTokens) {
  const TokenImageModel model = image_target();
  const ImageRun run =
      generate_images(model, ImageDrafter::load("self", model), kLabels, fixed(Rule::kStepwise, 4));
  EXPECT_GT(run.statistics.tau(), 1.0);
  EXPECT_LE(run.statistics.tau(), 3.0);  // (W + 1) / 2 for a window of 5
}

TEST(TokenImages, AdaptiveLengthsAndPrefillingMakeWholeImages) {
  const TokenImageModel model = image_target();
  TokenImageOptions o = fixed(Rule::kStepwise, 8);
  o.fixed_draft = false;
  o.prefill = 4;
  for (const char* name : {"cspd", "self"}) {
    const ImageDrafter drafter =
        name == std::string("cspd") ? cspd(model, "draft") : ImageDrafter::load(name, model);
    const ImageRun run = generate_images(model, drafter, kLabels, o);
    EXPECT_EQ(run.values.size(), kLabels.size());
    EXPECT_EQ(run.statistics.outputs, 5U * 16U);
    EXPECT_TRUE(run.draft_length.has_value());
  }
}

TEST(TokenImages, ATraceTellsWhatBecameOfEveryToken) {
  const TokenImageModel model = image_target();
  TokenImageOptions o = fixed(Rule::kStepwise, 3);
  o.pictures = o.trace = true;
  const ImageRun run = generate_images(model, cspd(model, "draft"), kLabels, o);
  ASSERT_EQ(run.trace.tokens.size(), 16U);
  std::size_t drafted = 0;
  for (const ImageTrace::Token& t : run.trace.tokens) {
    EXPECT_EQ(t.chain.size(), 10U);  // 9 inner steps
    if (t.fate == ImageTrace::Fate::kOwn) continue;
    ++drafted;
    ASSERT_EQ(t.draft.size(), 10U);
    EXPECT_EQ(t.draft.front(), t.chain.front());
    EXPECT_EQ(t.draft.back() == t.chain.back(), t.fate != ImageTrace::Fate::kRejected);
  }
  EXPECT_GT(drafted, 4U);
  EXPECT_GT(run.trace.previews.size(), 3U);
}

TEST(TokenImages, JoinAnEngineAndLeaveIt) {
  const TokenImageModel model = image_target();
  const ImageDrafter drafter = cspd(model, "draft");
  const TokenImageOptions o = fixed(Rule::kStepwise, 3);
  const ImageRun alone = generate_images(model, drafter, kLabels, o);
  Engine engine({.max_active = 2});
  std::map<RequestId, std::size_t> index;
  RequestId cancelled = 0;
  for (std::size_t i = 0; i < kLabels.size(); ++i) {
    TokenImageOptions one = o;
    one.first = static_cast<std::uint32_t>(i);
    const RequestId id = engine.submit(model, drafter, kLabels[i], one, i == 0 ? 4 : 0);
    index[id] = i;
    if (i == 2) cancelled = id;
    if (i == 1) engine.step();
  }
  std::size_t previews = 0, finished = 0;
  for (int steps = 0; engine.busy(); ++steps) {
    if (steps == 1) engine.cancel(cancelled);
    for (const Event& event : engine.step()) {
      previews += std::holds_alternative<ImagePreview>(event) ? 1 : 0;
      const auto* done = std::get_if<ImageFinished>(&event);
      if (done == nullptr || done->id == cancelled) continue;
      ++finished;
      EXPECT_EQ(done->values, alone.values[index[done->id]]);
    }
  }
  EXPECT_EQ(finished, 4U);
  EXPECT_GE(previews, 2U);
}

TEST(TokenImages, WhatDoesNotFitIsRefused) {
  const TokenImageModel model = image_target();
  const auto none = ImageDrafter::load("none", model);
  const auto refuses = [&](const TokenImageOptions& o, std::vector<std::int64_t> labels) {
    EXPECT_THROW(generate_images(model, none, labels, o), UsageError);
  };
  const TokenImageOptions good = fixed(Rule::kStepwise, 3);
  refuses(good, {3});
  refuses(good, {-1});
  refuses(good, {});
  refuses(fixed(Rule::kMaximal, 3), {0});
  refuses(fixed(Rule::kStepwise, 17), {0});
  TokenImageOptions bad = good;
  bad.steps = 1;
  refuses(bad, {0});
  bad = good;
  bad.guidance = std::nan("");
  refuses(bad, {0});
  bad = good;
  bad.temperature = 0.0;
  refuses(bad, {0});
  const DiffusionModel dit =
      DiffusionModel::load(FORERUN_SOURCE_DIR "/tests/data/dit/reference_pixel",
                           DitDialect::kReference, Precision::kF32);
  const ImageDrafter of_another_kind = ImageDrafter::load("asd", dit);
  EXPECT_THROW(generate_images(model, of_another_kind, kLabels, good), UsageError);
  ImageOptions steps;
  steps.steps = 5;
  EXPECT_THROW(generate_images(dit, cspd(model, "draft"), kLabels, steps), UsageError);
  EXPECT_THROW(cspd(model, "of-another"), UsageError);
  EXPECT_THROW(cspd(model, "coarse"), UsageError);
  EXPECT_THROW(ImageDrafter::load("asd", model), UsageError);
  EXPECT_THROW(ImageDrafter::load("cspd:/nowhere", model), FormatError);
  EXPECT_THROW(
      generate_images(model, ImageDrafter::load("self", model), kLabels, fixed(Rule::kPath, 3)),
      UsageError);
}

}  // namespace
}  // namespace forerun
