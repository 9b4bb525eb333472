#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/engine/token_image_runner.h"
#include "forerun/models/mar/mar_network.h"
#include "forerun/token_image.h"

namespace forerun {

struct TokenImageModel::Impl {
  std::string path;
  ChosenPrecision precision;
  std::shared_ptr<const Mar> mar;
  std::shared_ptr<const MarNetwork> network;
};

struct TokenImageDrafter::Impl {
  bool self = false;
  std::shared_ptr<const MarNetwork> network;  ///< of cspd:FOLDER
};

/// @throws UsageError  classes or options out of range
void check_token_images(const TokenImageModel& model, const TokenImageDrafter& drafter,
                        std::span<const std::int64_t> labels, const TokenImageOptions& options);
/// What the images of such a run have in common.
/// @throws UsageError
TokenImageSetting token_image_setting(const TokenImageModel& model,
                                      const TokenImageDrafter& drafter,
                                      const TokenImageOptions& options);

/// One run of sampling: a loop over the steps of a TokenImageRunner.
class TokenImageSampling {
 public:
  using Round = TokenImageRunner::Round;
  struct Extras {
    bool keep_tokens = false;  ///< how they came about
    std::size_t previews = 0;  ///< of the first image
    std::optional<TokenImageRequest::Resample> resample = std::nullopt;
    std::function<void(const Round&)> each = {};      ///< sees every round
    std::function<void(const Event&)> on_event = {};  ///< an image's id is its index in `labels`
  };
  /// @throws UsageError
  TokenImageSampling(const TokenImageModel& model, const TokenImageDrafter& drafter,
                     std::span<const std::int64_t> labels, const TokenImageOptions& options,
                     Extras extras);
  TokenImageSampling(const TokenImageSampling&) = delete;
  TokenImageSampling& operator=(const TokenImageSampling&) = delete;

  /// Runs until so many more tokens are made, there is nothing left, or the listener says so.
  /// @return  false if it was interrupted
  bool run(const ImageListener& listener, std::uint64_t tokens = UINT64_MAX);
  bool busy() const { return runner_.busy(); }

  const TokenImageRunner& runner() const noexcept { return runner_; }
  const RunStatistics& statistics() const noexcept { return statistics_; }
  double seconds() const noexcept { return seconds_; }

 private:
  void observe(const Round& round);

  Extras extras_;
  RunStatistics statistics_;
  ImageProgress progress_;
  double seconds_ = 0.0;
  TokenImageRunner runner_;
};

}  // namespace forerun
