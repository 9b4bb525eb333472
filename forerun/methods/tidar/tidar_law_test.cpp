// The law of whole texts whose drafts are sampled from blocks of mask rows, against enumeration:
// the 243 texts of five tokens out of three.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "forerun/core/tests_of_fit.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tidar/tidar_drafter.h"
#include "tests/support/text_law.h"

namespace forerun {
namespace {

using support::TableTarget;
using support::TextLaw;
using support::TextLawRun;
using support::TextLawSeen;

constexpr std::int64_t kLawVocab = 3;
constexpr std::size_t kLength = 5;
constexpr double kLeastP = 1e-6;  // fails by chance once in a million runs of a form
constexpr std::uint32_t kTexts = 15000;

// Their mask rows are the target's (TableTarget), the Markov head is theirs.
GatedLora weights_of_adapters() {
  GatedLora lora;
  lora.config.block = 4;
  lora.config.first_slot = 1;
  lora.config.vocab = kLawVocab;
  at::manual_seed(3);
  lora.markov_w1 = at::randn({kLawVocab, 2});
  lora.markov_w2 = at::randn({kLawVocab, 2});
  return lora;
}

std::shared_ptr<const GatedLora> adapters(const GatedLora& weights = weights_of_adapters()) {
  return std::make_shared<const GatedLora>(in_precision(weights, Precision::kF32));
}

struct Form {
  Rule rule = Rule::kMaximal;
  TidarForm form = TidarForm::kMeasured;
  bool adaptive = true;
  std::shared_ptr<const GatedLora> lora = adapters();
};

const TableTarget& target() {
  static const TableTarget target(17, kLawVocab, 0.8);
  return target;
}

using Controlled = ControlledDrafter<TidarDrafter>;

// Passes have no room for mask rows now and then, and rows cost more at times, so that plans vary.
template <class Drafter = Controlled>
TextLawSeen sample(const Form& f) {
  Drafter drafter(TidarDrafter(f.lora, f.form), DraftLength({.adaptive = f.adaptive}), 7);
  TextLawRun run{.rule = f.rule, .length = kLength, .row_seconds = 0.01};
  run.has_room = [](std::uint32_t pass) { return pass % 7 != 3; };
  return TextLaw(target(), drafter, run).sample(kTexts);
}

double p_value(const TextLawSeen& seen) {
  return chi_square_p(target().law(TextLawRun{}.prompt, kLength), seen.counts);
}

TEST(TidarLaw, OfSampledChainsIsTheTargets) {
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    for (const auto& [form, adaptive] :
         {std::pair(TidarForm::kMeasured, true), std::pair(TidarForm::kPruned, true),
          std::pair(TidarForm::kTwoPass, true), std::pair(TidarForm::kFused, false)}) {
      const TextLawSeen seen = sample({.rule = rule, .form = form, .adaptive = adaptive});
      EXPECT_GT(p_value(seen), kLeastP) << name_of(rule) << " " << static_cast<int>(form);
      EXPECT_GT(seen.accepted, kTexts / 5);                  // many were kept,
      EXPECT_GT(seen.drafted - seen.accepted, kTexts / 10);  // and many not,
      for (const std::size_t length : {0, 1, 2})
        EXPECT_GT(seen.lengths[length], 0U);  // of all sizes
    }
  }
}

// The head knows nothing after token 1: chains end there, whatever it is that they then leave out.
TEST(TidarLaw, OfChainsThatEndWhereScoresAreNotNumbersIsTheTargets) {
  GatedLora broken = weights_of_adapters();
  broken.markov_w1[1][0] = std::numeric_limits<float>::quiet_NaN();
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    const TextLawSeen seen = sample(
        {.rule = rule, .form = TidarForm::kFused, .adaptive = false, .lora = adapters(broken)});
    EXPECT_GT(p_value(seen), kLeastP) << name_of(rule);
    EXPECT_GT(seen.accepted, kTexts / 5);
  }
}

// The control: a draft that is dropped for its value is found with these texts.
class Peeking final : public TextDrafter {
 public:
  Peeking(TidarDrafter drafter, DraftLength control, std::size_t most)
      : drafter_(std::move(drafter), std::move(control), most) {}
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::size_t other_rows) override {
    std::vector<TokenDraft> drafts = drafter_.propose(sequences, other_rows);
    const auto all = drafter_.companions();
    companions_.assign(all.begin(), all.end());
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (drafts[i].tokens.empty() || drafts[i].tokens.back() != 1) continue;
      drafts[i].tokens.clear();
      drafts[i].laws.clear();
      companions_[i] = {};
    }
    return drafts;
  }
  std::span<const CompanionRows> companions() const override { return companions_; }
  void observe(const TextRound& round) override { drafter_.observe(round); }
  void forget(SequenceId id) override { drafter_.forget(id); }

 private:
  Controlled drafter_;
  std::vector<CompanionRows> companions_;
};

TEST(TidarLaw, OfDraftsDroppedForTheirValuesIsAnother) {
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    EXPECT_LT(
        p_value(sample<Peeking>({.rule = rule, .form = TidarForm::kFused, .adaptive = false})),
        kLeastP)
        << name_of(rule);
  }
}

}  // namespace
}  // namespace forerun
