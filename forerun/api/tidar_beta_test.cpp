// TiDAR's trust in diffusion: outputs of the mix of the target's logits and slot 0's follow exactly
// that law, which is another than the target's, and the certificate tells them apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/certificate.h"
#include "forerun/core/rng_key.h"
#include "forerun/models/gated_lora/peft_adapters.h"
#include "forerun/text.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tiny_tidar.h"

namespace forerun {
namespace {

using testing::chat_model;

const std::string kNemotron = FORERUN_SOURCE_DIR "/tests/data/nemotron";

// Random adapters with a slot 0, without a Markov head unless asked for.
std::string adapters_path(std::int64_t first_slot, std::int64_t markov) {
  const auto folder = testing::dflash_folder().path() /
                      ("beta" + std::to_string(first_slot) + std::to_string(markov));
  if (!std::filesystem::exists(folder)) {
    GatedLoraConfig c = gated_lora_config(impl_of(chat_model()).lm.config);
    c.target = chat_model().hash();
    c.block = 4;
    c.first_slot = first_slot;
    c.rank = 4;
    c.markov_rank = markov;
    GatedLora lora = initial_gated_lora(c, at::cos(at::arange(c.hidden, at::kFloat)), 7);
    for (const ModelWeight& w : weights(lora)) {
      if (w.name.ends_with("lora_B.weight")) w.tensor->normal_(0.0, 0.2);
    }
    save_gated_lora(folder, lora);
  }
  return folder.string();
}

// The logits of the next output by plain passes: one block of masks behind the text.
class Reference {
 public:
  Reference(const Model& model, GatedLora lora, double beta)
      : lm_(impl_of(model).lm), lora_(std::move(lora)), beta_(beta) {}

  std::vector<float> logits(std::span<const Token> text) const {
    KvCache cache = lm_.make_cache();
    prefill(lm_, cache, text.first(text.size() - 1));
    std::vector<Token> tokens = {text.back()};
    std::vector<std::int32_t> parents = {-1}, groups = {-1}, masks, scored = {0};
    const auto add = [&](Token token, std::int32_t parent) {
      masks.push_back(static_cast<std::int32_t>(tokens.size()));
      tokens.push_back(token);
      parents.push_back(parent);
      groups.push_back(0);
    };
    if (lora_.config.seeded) add(text.back(), -1);
    scored.push_back(static_cast<std::int32_t>(tokens.size()));
    for (std::int64_t s = 0; s < lora_.config.block; ++s) {
      add(lora_.config.mask_token, static_cast<std::int32_t>(tokens.size()) - 1);
    }
    const SequenceSpan span{.cache = &cache,
                            .tokens = tokens,
                            .parents = parents,
                            .groups = groups,
                            .scored_rows = scored,
                            .adapters = &lora_,
                            .masks = masks};
    const at::Tensor rows = forward(lm_, {&span, 1});
    std::vector<float> out;
    for (std::int64_t i = 0; i < rows.size(1); ++i) {
      const double own = rows[0][i].item<double>(), slot = rows[1][i].item<double>();
      // Zero times a forbidden token's logit is no number.
      const double mixed = beta_ == 0.0   ? slot
                           : beta_ == 1.0 ? own
                                          : beta_ * own + (1.0 - beta_) * slot;
      out.push_back(static_cast<float>(mixed));
    }
    return out;
  }
  std::vector<Token> greedy(std::vector<Token> text, std::size_t n) const {
    const std::size_t first = text.size();
    while (text.size() < first + n) text.push_back(argmax(logits(text)));
    return {text.begin() + static_cast<std::ptrdiff_t>(first), text.end()};
  }

 private:
  const DecoderLm& lm_;
  GatedLora lora_;
  double beta_;
};

struct BetaCase {
  Model model;
  std::string drafter;  // without beta
  GatedLora lora;
};

std::vector<BetaCase> cases() {
  const std::string own = adapters_path(0, 0);
  const Model nemotron = Model::load(kNemotron, Precision::kF32);
  const DecoderConfig& c = impl_of(nemotron).lm.config;
  return {
      {chat_model(), "tidar:" + own,
       load_gated_lora(own, impl_of(chat_model()).lm.config, chat_model().hash())},
      {nemotron, "tidar:self:block=5", load_peft_adapters(kNemotron + "/linear_spec_lora", c, 5)}};
}

GenerateOptions options(double temperature) {
  GenerateOptions o;
  o.rule = Rule::kMaximal;
  o.sampling.temperature = temperature;
  o.max_tokens = 30;
  o.max_draft = 3;
  o.ignore_end = true;
  o.seed = 6;
  return o;
}

const std::vector<Token> kPrompt = {10, 14, 19, 11, 16, 21, 12};

TEST(TidarBeta, GreedyTextIsThatOfTheMix) {
  for (const BetaCase& c : cases()) {
    const auto plain = generate(c.model, Drafter(), kPrompt, options(0.0)).tokens;
    for (const double beta : {0.0, 0.4, 0.8}) {
      const Drafter drafter = Drafter::load(c.drafter + fmt::format(":beta={}", beta), c.model);
      EXPECT_FALSE(drafter.keeps_law());
      const auto want = Reference(c.model, c.lora, beta).greedy(kPrompt, 30);
      if (beta < 0.5) {
        EXPECT_NE(want, plain) << c.drafter << beta;
      }
      for (const bool fixed : {false, true}) {
        for (const std::uint32_t most : {0U, 3U}) {
          GenerateOptions o = options(0.0);
          o.fixed_draft = fixed;
          o.max_draft = most;
          const Generated g = generate(c.model, drafter, kPrompt, o);
          EXPECT_EQ(g.tokens, want) << c.drafter << " " << beta << " " << fixed << " " << most;
          EXPECT_FALSE(g.exact);
          if (fixed) {
            EXPECT_EQ(g.statistics.drafted > 0, most > 0);
          }
        }
      }
    }
  }
}

// Where the block no longer fits, the target's own law decides, whatever the draft.
TEST(TidarBeta, TextsToTheEndOfTheContextDoNotDependOnTheDraft) {
  for (const BetaCase& c : cases()) {
    const Drafter drafter = Drafter::load(c.drafter + ":beta=0.4", c.model);
    GenerateOptions o = options(0.0);
    o.max_tokens = 100000;
    o.fixed_draft = true;
    const auto drafted = generate(c.model, drafter, kPrompt, o).tokens;
    o.max_draft = 0;
    EXPECT_EQ(generate(c.model, drafter, kPrompt, o).tokens, drafted) << c.drafter;
    EXPECT_GT(drafted.size(), 200U);
  }
}

// False alarm below 3e-4 a case, over seeds; seeded, so once.
TEST(TidarBeta, SampledOutputsFollowTheMixAndNotTheTarget) {
  for (const BetaCase& c : cases()) {
    const Drafter drafter = Drafter::load(c.drafter + ":beta=0.5", c.model);
    const Reference half(c.model, c.lora, 0.5), own(c.model, c.lora, 1.0);
    for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
      TokenCertificate mix, target;
      for (std::uint32_t request = 0; request < 12; ++request) {
        GenerateOptions o = options(1.0);
        o.rule = rule;
        o.fixed_draft = true;
        o.request = request;
        std::vector<Token> text = kPrompt;
        for (const Token token : generate(c.model, drafter, kPrompt, o).tokens) {
          const double v =
              RngKey{o.seed, request, 0, static_cast<std::uint32_t>(text.size())}.uniform(
                  Purpose::kCertificate);
          const std::vector<float> a = half.logits(text), b = own.logits(text);
          mix.add_output(Categorical(a), token, v);
          target.add_output(Categorical(b), token, v);
          text.push_back(token);
        }
      }
      EXPECT_TRUE(mix.report().passed()) << c.drafter << name_of(rule);
      EXPECT_FALSE(target.report().passed()) << c.drafter << name_of(rule);
    }
  }
}

TEST(TidarBeta, TheCertificateTellsItFromTheTarget) {
  const std::vector<std::vector<Token>> prompts = {kPrompt, {5, 6, 7}};
  for (const BetaCase& c : cases()) {
    const Drafter half = Drafter::load(c.drafter + ":beta=0.5", c.model);
    const Drafter own = Drafter::load(c.drafter + ":beta=1", c.model);
    EXPECT_TRUE(own.keeps_law());
    for (const Rule rule : {Rule::kMaximal, Rule::kSharedNoise}) {
      for (const double temperature : {0.0, 1.0}) {
        GenerateOptions o = options(temperature);
        o.rule = rule;
        o.fixed_draft = true;
        const Certificate mixed = certify(c.model, half, prompts, 1000, 50, o);
        EXPECT_FALSE(mixed.passed()) << c.drafter << name_of(rule) << temperature;
        EXPECT_FALSE(mixed.exact);
        const Certificate kept = certify(c.model, own, prompts, 1000, 50, o);
        EXPECT_TRUE(kept.passed()) << c.drafter << name_of(rule) << temperature;
        EXPECT_TRUE(kept.exact);
      }
    }
  }
}

TEST(TidarBeta, WhatCannotBeMixedIsRefusedWithALine) {
  const auto message = [](const std::string& name) -> std::string {
    try {
      Drafter::load(name, chat_model());
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  for (const auto& [name, words] : std::vector<std::pair<std::string, std::string>>{
           {"tidar:" + adapters_path(1, 0) + ":beta=0.5", "--first-slot"},
           {"tidar:" + adapters_path(0, 2) + ":beta=0.5", "--markov 0"},
           {"tidar:" + adapters_path(0, 0) + ":beta=0.5+lookup", "leave it out"},
           {"tidar:" + adapters_path(0, 0) + ":beta=1.5", "from 0 to 1"},
           {"tidar:" + adapters_path(0, 0) + ":beta=nan", "from 0 to 1"},
           {"tidar:" + adapters_path(0, 0) + ":beta=", "from 0 to 1"}}) {
    EXPECT_NE(message(name).find(words), std::string::npos) << name << ": " << message(name);
    EXPECT_EQ(message(name).find('\n'), std::string::npos);
  }
  EXPECT_EQ(message("tidar:" + adapters_path(1, 2) + ":beta=1"), "");
}

}  // namespace
}  // namespace forerun
