#pragma once

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "forerun/base/interrupted.h"
#include "forerun/core/outcome.h"
#include "forerun/core/speculate.h"
#include "forerun/engine/runner.h"

namespace forerun {

/// An image to sample.
struct ImageRequest {
  std::int64_t label = 0;
  std::uint64_t seed = 0;
  std::uint32_t request = 0;  ///< separates the noise of images of one seed
  bool keep = false;          ///< all states, or tokens, stay with the sample: for certificates
  std::size_t previews = 0;   ///< about so many previews, 0 = none
  /// Noise from this transition on comes from another seed (LatentSample::resample_from). Inner
  /// steps of tokens are counted on from token to token.
  struct Resample {
    std::size_t step = 0;
    std::uint64_t seed = 0;
    std::vector<std::uint32_t> kept = {};
  };
  std::optional<Resample> resample = std::nullopt;
};

/// Samples images of one model and one setting. A step is one round: the running images are drafted
/// for, and verified in one pass. Not thread-safe.
///
/// Sample, Draft, Verified  of the loop: see speculate.h.
template <class Sample, class Draft, class Verified>
class SampleRunner : public Runner {
 public:
  using Round = forerun::Round<Sample, Draft, Verified>;
  using Observer = std::function<void(const Round&)>;

  SampleRunner(const SampleRunner&) = delete;
  SampleRunner& operator=(const SampleRunner&) = delete;

  /// @throws std::invalid_argument  a class that the model lacks
  void submit(RequestId id, const ImageRequest& r) {
    if (r.label < 0 || r.label >= classes()) {
      throw std::invalid_argument(
          fmt::format("class {}: the model has 0 to {}", r.label, classes() - 1));
    }
    waiting_.push_back(
        std::make_unique<Image>(Image{.sample = sample_of(id, r), .previews = r.previews}));
  }
  bool busy() const override { return !active_.empty() || !waiting_.empty(); }
  void step(std::vector<Event>& events) override;
  bool cancel(RequestId id, std::vector<Event>& events) override;

  /// The unfinished images that have been begun.
  std::vector<const Sample*> samples() const {
    std::vector<const Sample*> out;
    for (const auto& image : active_) out.push_back(&image->sample);
    return out;
  }
  virtual std::size_t outputs() const = 0;  ///< of an image
  /// Outcomes of a round as its statistics count them.
  virtual std::vector<Outcome> outcomes(const Round& round) const {
    return {round.outcomes.begin(), round.outcomes.end()};
  }
  virtual Timings seconds(const Round& round) const { return round.seconds; }

 protected:
  struct Image {
    Sample sample;
    RunStatistics statistics = {};
    std::size_t previews = 0;
    std::size_t due = 0;             // outputs at the next preview
    std::vector<float> before = {};  // ImageRunner: the state that the round began with
  };

  /// @param max_active  images that run at a time; 0 = all
  /// @param observer    sees every round
  SampleRunner(std::size_t max_active, Observer observer)
      : max_active_(max_active), observer_(std::move(observer)) {}

  virtual std::int64_t classes() const = 0;
  virtual Sample sample_of(RequestId id, const ImageRequest& request) const = 0;
  virtual std::vector<float> values(const Sample& sample) const = 0;
  virtual void begin(Image&) const {}
  /// One round over these samples.
  virtual void run(std::span<Sample* const> samples, const Observer& observe) = 0;
  /// What the round costs and keeps; called after all that observe it.
  virtual void learn(const Round&) {}
  virtual void preview(Image& image, std::size_t index, const Round& round,
                       std::vector<Event>& events) const = 0;
  /// An image that ends early.
  virtual void forget(SequenceId id) = 0;

  /// A round with or without a drafter.
  template <class Target, class Drafter, class Rule>
  static void speculate(std::span<Sample* const> samples, Target& target,
                        std::optional<Drafter>& drafter, const Rule& rule,
                        const Observer& observe) {
    if (drafter) return speculate_round<Sample>(samples, target, *drafter, rule, observe);
    NoDrafter none;
    speculate_round<Sample>(samples, target, none, rule, observe);
  }
  /// Whether an image with so many outputs is to be shown; `last` is shown anyway.
  static bool due(Image& image, std::size_t made, bool last) {
    if (image.previews == 0 || (made < image.due && !last)) return false;
    image.due = made + std::max<std::size_t>(image.sample.steps() / image.previews, 1);
    return true;
  }

 private:
  // A plain sample drafts nothing.
  struct NoDrafter {
    std::vector<Draft> propose(std::span<Sample* const> samples) const {
      return std::vector<Draft>(samples.size());
    }
    void observe(std::span<Sample* const>, const std::vector<Draft>&, const Verified&,
                 std::span<const Outcome>) const {}
  };

  void observe(const Round& round, std::vector<Event>& events);
  void finish(Image& image, std::vector<Event>& events) const {
    events.emplace_back(ImageFinished{.id = image.sample.id(),
                                      .steps = image.sample.step(),
                                      .complete = image.sample.done(),
                                      .values = values(image.sample),
                                      .statistics = std::move(image.statistics)});
  }

  std::size_t max_active_;
  Observer observer_;
  std::deque<std::unique_ptr<Image>> waiting_;
  std::vector<std::unique_ptr<Image>> active_;
};

template <class Sample, class Draft, class Verified>
void SampleRunner<Sample, Draft, Verified>::observe(const Round& round,
                                                    std::vector<Event>& events) {
  const std::vector<Outcome> counted = outcomes(round);
  const Timings all = seconds(round);
  const auto n = static_cast<double>(active_.size());
  const Timings share{.drafter = all.drafter / n, .target = all.target / n, .rest = all.rest / n};
  for (std::size_t i = 0; i < active_.size(); ++i) {
    active_[i]->statistics.add({&counted[i], 1}, share);
    preview(*active_[i], i, round, events);
  }
  if (observer_) observer_(round);
  learn(round);
}

template <class Sample, class Draft, class Verified>
void SampleRunner<Sample, Draft, Verified>::step(std::vector<Event>& events) {
  const c10::InferenceMode no_autograd;
  while (!waiting_.empty() && (max_active_ == 0 || active_.size() < max_active_)) {
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (active_.empty()) return;
  std::vector<Sample*> samples;
  for (const auto& image : active_) {
    samples.push_back(&image->sample);
    begin(*image);
  }
  try {
    run(samples, [&](const Round& round) { observe(round, events); });
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {  // images share their passes: nobody can tell whose it was
    for (const auto& image : active_) {
      forget(image->sample.id());
      events.emplace_back(Failed{image->sample.id(), e.what()});
    }
    active_.clear();
    return;
  }
  for (const auto& image : active_) {
    if (image->sample.done()) finish(*image, events);
  }
  std::erase_if(active_, [](const auto& image) { return image->sample.done(); });
}

template <class Sample, class Draft, class Verified>
bool SampleRunner<Sample, Draft, Verified>::cancel(RequestId id, std::vector<Event>& events) {
  const auto take = [&](auto& images) {
    const auto at = std::find_if(images.begin(), images.end(),
                                 [&](const auto& i) { return i->sample.id() == id; });
    if (at == images.end()) return false;
    finish(**at, events);
    forget(id);
    images.erase(at);
    return true;
  };
  return take(active_) || take(waiting_);
}

}  // namespace forerun
