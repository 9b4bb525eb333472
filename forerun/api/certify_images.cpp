#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "forerun/api/diffusion_impl.h"
#include "forerun/base/interrupted.h"
#include "forerun/core/certificate.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/image.h"
#include "forerun/methods/diffusion/decision_watch.h"

namespace forerun {
namespace {

// The draft that decided a transition: its mean, and how far that lay from the target's, in sigmas.
struct DecidingDraft {
  Latent mean;
  double delta = 0.0;
};
using DecidingDrafts = std::map<std::size_t, DecidingDraft>;  // by transition

// Every transition that a sample has made, scored by plain passes over its states. Whether an image
// was finished before an interruption depends on its drafts: to judge finished ones alone selects.
class ImageJudge {
 public:
  ImageJudge(DitTarget& target, const LatentRule& rule, ImageCertificate& out, const GoOn& go_on)
      : target_(target), rule_(rule), out_(out), go_on_(go_on) {}

  void judge(const LatentSample& sample, const DecidingDrafts& drafts) {
    constexpr std::size_t kRows = 64;
    for (std::size_t first = 0; first < sample.step(); first += kRows) {
      if (leaves()) return;
      LatentRows rows;
      for (std::size_t k = first; k < std::min(sample.step(), first + kRows); ++k) {
        rows.add(sample, sample.states()[k], k);
      }
      const LatentScores scores = target_.score(rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t k = first + i;
        const double sigma = target_.schedule().step(static_cast<std::int64_t>(k)).sigma;
        // Without noise the output is the mean, or it is not.
        if (sigma == 0.0) {
          certain_ += sample.states()[k + 1] == scores.means[i] ? 0 : 1;
          continue;
        }
        const auto draft = drafts.find(k);
        const bool drafted = draft != drafts.end();
        certificate_.add(
            {scores.means[i], sigma},
            drafted ? std::span<const float>(draft->second.mean) : std::span<const float>(),
            sample.states()[k + 1]);
        if (!drafted) continue;
        const double shift = relaxed_law(draft->second.delta, rule_.relaxation(k)).shift;
        if (std::isfinite(shift)) predicted_ += shift;
      }
    }
  }

  void finish() {
    out_.interrupted = out_.interrupted || left_;
    if (left_) return;
    out_.report = certificate_.report();
    out_.report.forbidden = certain_;
    const auto n = static_cast<double>(std::max<std::uint64_t>(out_.report.drafted, 1));
    out_.shift = out_.report.z / std::sqrt(n);  // z is the sum of projections over sqrt(n)
    out_.predicted_shift = predicted_ / n;
  }

 private:
  // After an interruption the rest is judged if that takes a second at most; a part of it would
  // again be a selection.
  bool leaves() {
    using Clock = std::chrono::steady_clock;
    if (!until_ && go_on_ && !go_on_()) until_ = Clock::now() + std::chrono::seconds(1);
    left_ = left_ || (until_ && Clock::now() > *until_);
    return left_;
  }

  DitTarget& target_;
  const LatentRule& rule_;
  ImageCertificate& out_;
  const GoOn& go_on_;
  std::optional<std::chrono::steady_clock::time_point> until_;
  bool left_ = false;
  GaussianCertificate certificate_;
  double predicted_ = 0.0;
  std::uint64_t certain_ = 0;
};

// Samples the watched transitions again, each in a run of its own image whose noise comes from
// another seed from there on.
Counterfactuals check_counterfactuals(const DiffusionModel& model, const ImageDrafter& drafter,
                                      std::span<const std::int64_t> labels,
                                      const ImageOptions& options, const ImageListener& listener,
                                      const DecisionWatch& original) {
  Counterfactuals out;
  for (const auto& [place, decision] : original.decisions()) {
    ImageOptions one = options;
    one.first = place.first;
    DecisionWatch watch({place});
    ImageSampling sampling(
        model, drafter, labels.subspan(place.first - options.first, 1), one,
        {.resample = ImageRequest::Resample{place.second, ~options.seed, decision.kept},
         .each = std::ref(watch)});
    const auto go_on = [&] { return !watch.complete() && (!listener.go_on || listener.go_on()); };
    sampling.run({.go_on = go_on});
    if (!watch.complete()) break;  // interrupted
    ++out.places;
    out.violations += decision.same(watch.decisions().at(place)) ? 0 : 1;
  }
  return out;
}

}  // namespace

bool ImageCertificate::passed() const noexcept {
  return report.drafted > 0 && report.passed() && std::abs(expected_z) < 4.0 &&
         counterfactuals.violations == 0;
}

ImageCertificate certify_images(const DiffusionModel& model, const ImageDrafter& drafter,
                                std::span<const std::int64_t> labels, const ImageOptions& options,
                                const ImageListener& listener, std::size_t counterfactuals) {
  ImageCertificate out;
  std::map<std::uint32_t, DecidingDrafts> drafts;
  double variance = 0.0;
  std::optional<ImageJudge> judge;
  const LatentRule* rule = nullptr;
  DecisionWatch watch(seeded_places(options.seed, options.first, labels.size(),
                                    static_cast<std::size_t>(options.steps),
                                    options.fixed_draft ? counterfactuals : 0));
  const auto each = [&](const ImageSampling::Round& round) {
    watch(round);
    for (const ExaminedDraft& d : examined_drafts(round, *rule)) {
      const LatentSample& sample = *round.sequences[d.sample];
      const std::size_t first = sample.step() - round.outcomes[d.sample].emitted;
      drafts[sample.request()][d.step] = {round.drafts[d.sample].means[d.step - first], d.delta};
      out.kept += d.kept ? 1 : 0;
      out.expected += d.keeps;
      variance += d.keeps * (1.0 - d.keeps);
    }
    for (LatentSample* sample : round.sequences) {
      if (!sample->done()) continue;
      judge->judge(*sample, drafts[sample->request()]);
      drafts.erase(sample->request());
      sample->forget_states();
    }
  };
  ImageSampling sampling(model, drafter, labels, options, {.keep_states = true, .each = each});
  rule = &sampling.rule();
  judge.emplace(sampling.runner().target(), *rule, out, listener.go_on);
  out.interrupted = !sampling.run(listener);
  for (const LatentSample* sample : sampling.runner().samples()) {
    judge->judge(*sample, drafts[sample->request()]);
  }
  judge->finish();
  if (!out.interrupted) {
    out.counterfactuals = check_counterfactuals(model, drafter, labels, options, listener, watch);
  }
  out.expected_z =
      variance > 0.0 ? (static_cast<double>(out.kept) - out.expected) / std::sqrt(variance) : 0.0;
  out.seconds = sampling.seconds();
  return out;
}

}  // namespace forerun
