#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/engine/sample_runner.h"
#include "forerun/methods/cspd/token_drafter.h"
#include "forerun/methods/cspd/token_target.h"

namespace forerun {

/// What all images of a runner have in common.
struct TokenImageSetting {
  MarChains::Setting target;
  std::optional<MarChains::Setting> draft;  ///< of the draft model, if there is one
  bool self = false;                        ///< the target drafts for itself
  Rule rule = Rule::kStepwise;
  std::size_t max_draft = 8;  ///< drafted tokens a round at most
  bool fixed_draft = false;
  std::size_t prefill = 0;     ///< tokens that the target makes alone before any are drafted
  std::size_t max_active = 0;  ///< images that run at a time; 0 = all
};

/// Samples images token by token; the chains of all are coupled side by side. Values in events are
/// pixels in [-1, 1], [channels, side, side]; previews are the tokens so far.
class TokenImageRunner final : public SampleRunner<ChainSample, ChainDraft, VerifiedChains> {
 public:
  /// @throws std::invalid_argument  a rule for other values; self-drafting by another than stepwise
  explicit TokenImageRunner(const TokenImageSetting& setting, Observer observer = {});

  const TokenTarget& target() const noexcept { return target_; }
  const TokenImageSetting& setting() const noexcept { return setting_; }
  bool exact() const noexcept { return rule_.exact(); }
  std::size_t outputs() const override { return static_cast<std::size_t>(config().tokens()); }
  /// What a step of the masked form reveals are outputs and no drafts.
  std::vector<Outcome> outcomes(const Round& round) const override;
  /// Most of what a verified token costs is its chain under the target: that is the target's time.
  Timings seconds(const Round& round) const override;
  /// What the controller knows; nothing without a drafter.
  std::optional<DraftLengthReport> draft_length() const;

 private:
  const MarConfig& config() const { return setting_.target.network->config(); }
  std::int64_t classes() const override { return config().classes; }
  ChainSample sample_of(RequestId id, const ImageRequest& r) const override;
  std::vector<float> values(const ChainSample& sample) const override;
  void run(std::span<ChainSample* const> samples, const Observer& observe) override;
  void learn(const Round& round) override;
  void preview(Image& image, std::size_t index, const Round& round,
               std::vector<Event>& events) const override;
  void forget(SequenceId id) override;

  TokenImageSetting setting_;
  ChainRule rule_;
  TokenTarget target_;
  std::optional<AdaptiveTokenDrafter> drafter_;
};

}  // namespace forerun
