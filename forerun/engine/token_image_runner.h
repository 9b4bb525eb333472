#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/core/speculate.h"
#include "forerun/engine/runner.h"
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

/// An image to sample.
struct TokenImageRequest {
  std::int64_t label = 0;
  std::uint64_t seed = 0;
  std::uint32_t request = 0;  ///< separates the noise of images of one seed
  bool keep_tokens = false;   ///< how every token came about stays with the sample
  std::size_t previews = 0;   ///< about so many events with the tokens so far, 0 = none
  /// Noise from this inner step on comes from another seed: ChainSample::resample_from.
  struct Resample {
    std::size_t token = 0, inner = 0;
    std::uint64_t seed = 0;
  };
  std::optional<Resample> resample = std::nullopt;
};

/// Samples images token by token, for one model and one setting. A step is one round: the running
/// images are drafted for, and verified in one pass; their chains are coupled side by side. Values
/// in events are pixels in [-1, 1], [channels, side, side]. Not thread-safe.
class TokenImageRunner final : public Runner {
 public:
  using Round = forerun::Round<ChainSample, ChainDraft, VerifiedChains>;
  using Observer = std::function<void(const Round&)>;

  /// @param observer  sees every round
  /// @throws std::invalid_argument  a rule for other values; self-drafting by another than stepwise
  explicit TokenImageRunner(const TokenImageSetting& setting, Observer observer = {});
  TokenImageRunner(const TokenImageRunner&) = delete;
  TokenImageRunner& operator=(const TokenImageRunner&) = delete;

  /// @throws std::invalid_argument  a class that the model lacks
  void submit(RequestId id, const TokenImageRequest& request);
  bool busy() const override { return !active_.empty() || !waiting_.empty(); }
  void step(std::vector<Event>& events) override;
  bool cancel(RequestId id, std::vector<Event>& events) override;

  const TokenTarget& target() const noexcept { return target_; }
  const TokenImageSetting& setting() const noexcept { return setting_; }
  /// The unfinished images that have been begun.
  std::vector<const ChainSample*> samples() const;
  /// What the controller knows; nothing without a drafter.
  std::optional<DraftLengthReport> draft_length() const;

 private:
  struct Image {
    ChainSample sample;
    RunStatistics statistics = {};
    std::size_t previews = 0;
    std::size_t due = 0;  // tokens at the next preview
  };
  const MarConfig& config() const { return setting_.target.network->config(); }
  std::vector<float> pixels(const ChainSample& sample) const;
  void finish(Image& image, std::vector<Event>& events) const;
  void drop(SequenceId id);

  TokenImageSetting setting_;
  ChainRule rule_;
  TokenTarget target_;
  std::optional<AdaptiveTokenDrafter> drafter_;
  Observer observer_;
  std::deque<std::unique_ptr<Image>> waiting_;
  std::vector<std::unique_ptr<Image>> active_;
};

}  // namespace forerun
