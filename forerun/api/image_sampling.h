#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "forerun/api/image_impl.h"

namespace forerun {

/// One run of sampling images of a kind: a loop over the steps of its runner.
template <class Model>
class ImageSampling {
 public:
  using Runner = typename Model::Impl::Runner;
  using Round = typename Runner::Round;
  struct Extras {
    bool keep = false;         ///< how they came about
    std::size_t previews = 0;  ///< of the first image
    std::optional<ImageRequest::Resample> resample = std::nullopt;
    std::function<void(const Round&)> each = {};      ///< sees every round
    std::function<void(const Event&)> on_event = {};  ///< an image's id is its index in `labels`
  };
  /// @throws UsageError
  ImageSampling(const Model& model, const ImageDrafter& drafter,
                std::span<const std::int64_t> labels, const typename Model::Options& options,
                Extras extras)
      : extras_(std::move(extras)),
        runner_(
            (check_images(model, drafter, labels, options), image_setting(model, drafter, options)),
            [this](const Round& round) { observe(round); }) {
    progress_ = {.of_steps = labels.size() * static_cast<std::uint64_t>(runner_.outputs()),
                 .of_images = labels.size()};
    for (std::uint32_t i = 0; i < labels.size(); ++i) {
      runner_.submit(i, {.label = labels[i],
                         .seed = options.seed,
                         .request = options.first + i,
                         .keep = extras_.keep,
                         .previews = i == 0 ? extras_.previews : 0,
                         .resample = extras_.resample});
    }
  }
  ImageSampling(const ImageSampling&) = delete;
  ImageSampling& operator=(const ImageSampling&) = delete;

  /// Runs until so many more outputs are made, there is nothing left, or the listener says so.
  /// @return  false if it was interrupted
  bool run(const ImageListener& listener, std::uint64_t outputs = UINT64_MAX) {
    const auto start = std::chrono::steady_clock::now();
    const double before = seconds_;
    const std::uint64_t from = statistics_.outputs;
    std::vector<Event> events;
    while (runner_.busy() && statistics_.outputs - from < outputs) {
      if (listener.go_on && !listener.go_on()) return false;
      runner_.step(events);
      for (const Event& event : events) {
        if (const auto* failed = std::get_if<Failed>(&event)) {
          throw std::runtime_error(failed->message);
        }
        if (extras_.on_event) extras_.on_event(event);
      }
      events.clear();
      seconds_ =
          before + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      progress_.seconds = seconds_;
      if (listener.on_progress) listener.on_progress(progress_);
    }
    return true;
  }

  Runner& runner() noexcept { return runner_; }
  const RunStatistics& statistics() const noexcept { return statistics_; }
  double seconds() const noexcept { return seconds_; }

 private:
  void observe(const Round& round) {
    const std::vector<Outcome> outcomes = runner_.outcomes(round);
    statistics_.add(outcomes, runner_.seconds(round));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      progress_.steps += outcomes[i].emitted;
      progress_.kept += outcomes[i].accepted;
      progress_.rejected += outcomes[i].examined - outcomes[i].accepted;
      progress_.images += round.sequences[i]->done() ? 1 : 0;
    }
    if (extras_.each) extras_.each(round);
  }

  Extras extras_;
  RunStatistics statistics_;
  ImageProgress progress_;
  double seconds_ = 0.0;
  Runner runner_;
};

}  // namespace forerun
