#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "forerun/api/image_sampling.h"
#include "forerun/base/interrupted.h"
#include "forerun/core/certificate.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/methods/diffusion/decision_watch.h"

namespace forerun {
namespace {

// Gaussian steps that a run has made, and what it kept of its drafts. Whether an image was finished
// before an interruption depends on its drafts: to judge finished ones alone selects.
class StepJudge {
 public:
  StepJudge(Certificate& out, const GoOn& go_on) : out_(out), go_on_(go_on) {}

  void finish() {
    if (variance_ > 0.0) {
      out_.expected_z = (static_cast<double>(out_.kept) - out_.expected) / std::sqrt(variance_);
    }
    out_.interrupted = out_.interrupted || left_;
    if (left_) return;
    out_.report = certificate_.report();
    out_.report.forbidden = certain_;
    out_.outputs = out_.report.outputs;
    out_.drafted = out_.report.drafted;
    const auto n = static_cast<double>(std::max<std::uint64_t>(out_.drafted, 1));
    out_.shift = out_.report.z / std::sqrt(n);  // z is the sum of projections over sqrt(n)
    out_.predicted_shift = predicted_ / n;
  }

 protected:
  // A step whose conditional is known from plain passes; empty: it was not drafted.
  void add(const Gaussian& target, std::span<const float> draft, std::span<const float> value) {
    certificate_.add(target, draft, value);
  }
  // Without noise the output is the mean, or it is not.
  void add_certain(bool same) { certain_ += same ? 0 : 1; }
  void expect(double keeps, bool kept) {
    out_.kept += kept ? 1 : 0;
    out_.expected += keeps;
    variance_ += keeps * (1.0 - keeps);
  }
  void predict(double shift) { predicted_ += std::isfinite(shift) ? shift : 0.0; }
  // After an interruption the rest is judged if that takes a second at most; a part of it would
  // again be a selection.
  bool leaves() {
    using Clock = std::chrono::steady_clock;
    if (!until_ && go_on_ && !go_on_()) until_ = Clock::now() + std::chrono::seconds(1);
    left_ = left_ || (until_ && Clock::now() > *until_);
    return left_;
  }

 private:
  Certificate& out_;
  const GoOn& go_on_;
  std::optional<std::chrono::steady_clock::time_point> until_;
  bool left_ = false;
  GaussianCertificate certificate_;
  double variance_ = 0.0, predicted_ = 0.0;
  std::uint64_t certain_ = 0;
};

template <class Model>
class ImageJudge;

// Every transition that a sample has made, scored by plain passes over its states.
template <>
class ImageJudge<DiffusionModel> : public StepJudge {
 public:
  static constexpr Scored kScored = Scored::kTransitions;

  ImageJudge(ImageRunner& runner, Certificate& out, const GoOn& go_on)
      : StepJudge(out, go_on), target_(runner.target()), rule_(runner.setting().rule) {}

  std::size_t inner() const { return 1; }  // transitions of an output
  // A relaxation changes what is kept, and no mean.
  bool decides_by_the_past() const { return true; }

  void observe(const ImageRunner::Round& round) {
    for (const ExaminedDraft& d : examined_drafts(round, rule_)) {
      const LatentSample& sample = *round.sequences[d.sample];
      const std::size_t first = sample.step() - round.outcomes[d.sample].emitted;
      drafts_[sample.request()][d.step] = {round.drafts[d.sample].means[d.step - first], d.delta};
      expect(d.keeps, d.kept);
    }
  }

  void judge(const LatentSample& sample) {
    constexpr std::size_t kRows = 64;
    const DecidingDrafts drafts = std::move(drafts_[sample.request()]);
    drafts_.erase(sample.request());
    for (std::size_t first = 0; first < sample.step(); first += kRows) {
      if (leaves()) return;
      LatentRows rows;
      for (std::size_t k = first; k < std::min(sample.step(), first + kRows); ++k) {
        rows.add(sample, sample.states()[k], k);
      }
      const LatentScores scores = target_.score(rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        add_step(sample, first + i, scores.means[i], drafts);
      }
    }
  }
  static void forget(LatentSample& sample) { sample.forget_states(); }

 private:
  // The draft that decided a transition: its mean, and how far that lay from the target's, in
  // sigmas.
  struct DecidingDraft {
    Latent mean;
    double delta = 0.0;
  };
  using DecidingDrafts = std::map<std::size_t, DecidingDraft>;  // by transition

  void add_step(const LatentSample& sample, std::size_t k, const Latent& mean,
                const DecidingDrafts& drafts) {
    const double sigma = target_.schedule().step(static_cast<std::int64_t>(k)).sigma;
    const Latent& value = sample.states()[k + 1];
    if (sigma == 0.0) return add_certain(value == mean);
    const auto draft = drafts.find(k);
    if (draft == drafts.end()) return add({mean, sigma}, {}, value);
    add({mean, sigma}, draft->second.mean, value);
    predict(relaxed_law(draft->second.delta, rule_.relaxation(k)).shift);
  }

  DitTarget& target_;
  const LatentRule& rule_;
  std::map<std::uint32_t, DecidingDrafts> drafts_;  // by request
};

// Every inner step of every emitted chain, scored by plain passes over a fresh cache.
template <>
class ImageJudge<TokenImageModel> : public StepJudge {
 public:
  static constexpr Scored kScored = Scored::kInnerSteps;

  ImageJudge(TokenImageRunner& runner, Certificate& out, const GoOn& go_on)
      : StepJudge(out, go_on), model_(runner.setting().target), rule_(runner.setting().rule) {}

  std::size_t inner() const { return model_.sigmas().size(); }
  bool decides_by_the_past() const { return is_exact(rule_); }

  void observe(const TokenImageRunner::Round&) {}

  void judge(const ChainSample& sample) {
    if (leaves()) return;
    const auto means = means_along_tokens(model_, sample);
    const std::span<const double> sigmas = model_.sigmas();
    const std::vector<ChainToken>& tokens = sample.tokens();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::size_t k = 0; k < sigmas.size(); ++k) {
        add_step({means[i][k], sigmas[k]}, tokens[i], k);
      }
    }
  }
  static void forget(ChainSample& sample) { sample.forget_tokens(); }

 private:
  void add_step(const Gaussian& target, const ChainToken& token, std::size_t k) {
    const Latent& value = token.path.states[k + 1];
    if (token.draft_means.empty() || token.draft_means[k].empty()) return add(target, {}, value);
    add(target, token.draft_means[k], value);
    if (rule_ != Rule::kStepwise) return;
    expect(together_probability(target, token.draft_means[k]), token.together[k] != 0);
  }

  MarChains model_;
  Rule rule_;
};

// Samples the watched transitions again, each in a run of its own image whose noise comes from
// another seed from there on.
template <class Model>
Counterfactuals check_counterfactuals(const Model& model, const ImageDrafter& drafter,
                                      std::span<const std::int64_t> labels,
                                      const typename Model::Options& options,
                                      const ImageListener& listener, const DecisionWatch& original,
                                      std::size_t inner) {
  Counterfactuals out;
  for (const auto& [place, decision] : original.decisions()) {
    typename Model::Options one = options;
    one.first = place.first;
    DecisionWatch watch({place}, inner);
    ImageSampling<Model> sampling(
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

template <class Model>
Certificate certify_run(const Model& model, const ImageDrafter& drafter,
                        std::span<const std::int64_t> labels,
                        const typename Model::Options& options, const ImageListener& listener,
                        std::size_t counterfactuals) {
  Certificate out{.scored = ImageJudge<Model>::kScored, .rule = options.rule};
  std::function<void(const typename ImageSampling<Model>::Round&)> observe;
  ImageSampling<Model> sampling(model, drafter, labels, options,
                                {.keep = true, .each = [&](const auto& round) { observe(round); }});
  auto& runner = sampling.runner();
  ImageJudge<Model> judge(runner, out, listener.go_on);
  DecisionWatch watch(
      seeded_places(options.seed, options.first, labels.size(), runner.outputs() * judge.inner(),
                    options.fixed_draft ? counterfactuals : 0),
      judge.inner());
  observe = [&](const auto& round) {
    watch(round);
    judge.observe(round);
    for (auto* sample : round.sequences) {
      if (!sample->done()) continue;
      judge.judge(*sample);
      judge.forget(*sample);
    }
  };
  out.exact = runner.exact();
  out.interrupted = !sampling.run(listener);
  for (const auto* sample : runner.samples()) judge.judge(*sample);
  judge.finish();
  if (!out.interrupted && judge.decides_by_the_past()) {
    out.counterfactuals =
        check_counterfactuals(model, drafter, labels, options, listener, watch, judge.inner());
  }
  out.statistics = sampling.statistics();
  out.seconds = sampling.seconds();
  return out;
}

}  // namespace

Certificate certify_images(const DiffusionModel& model, const ImageDrafter& drafter,
                           std::span<const std::int64_t> labels, const ImageOptions& options,
                           const ImageListener& listener, std::size_t counterfactuals) {
  return certify_run(model, drafter, labels, options, listener, counterfactuals);
}

Certificate certify_images(const TokenImageModel& model, const ImageDrafter& drafter,
                           std::span<const std::int64_t> labels, const TokenImageOptions& options,
                           const ImageListener& listener, std::size_t counterfactuals) {
  return certify_run(model, drafter, labels, options, listener, counterfactuals);
}

}  // namespace forerun
