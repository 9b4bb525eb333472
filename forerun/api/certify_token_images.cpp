#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>

#include "forerun/api/token_image_impl.h"
#include "forerun/core/certificate.h"
#include "forerun/methods/diffusion/decision_watch.h"
#include "forerun/token_image.h"

namespace forerun {
namespace {

// Every inner step of every emitted chain, scored by plain passes over a fresh cache. Unfinished
// images too: whether an image was finished before an interruption depends on its drafts.
class ChainJudge {
 public:
  ChainJudge(const MarChains::Setting& target, bool by_step, ImageCertificate& out)
      : model_(target), by_step_(by_step), out_(out) {}

  void judge(const ChainSample& sample) {
    const auto means = means_along_tokens(model_, sample);
    const std::span<const double> sigmas = model_.sigmas();
    const std::vector<ChainToken>& tokens = sample.tokens();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::size_t k = 0; k < sigmas.size(); ++k) {
        add({means[i][k], sigmas[k]}, tokens[i], k);
      }
    }
  }

  void finish() {
    out_.report = certificate_.report();
    const auto n = static_cast<double>(std::max<std::uint64_t>(out_.report.drafted, 1));
    out_.shift = out_.report.z / std::sqrt(n);  // z is the sum of projections over sqrt(n)
    out_.expected_z = variance_ > 0.0
                          ? (static_cast<double>(out_.kept) - out_.expected) / std::sqrt(variance_)
                          : 0.0;
  }

 private:
  void add(const Gaussian& target, const ChainToken& token, std::size_t k) {
    const bool drafted = !token.draft_means.empty() && !token.draft_means[k].empty();
    certificate_.add(
        target, drafted ? std::span<const float>(token.draft_means[k]) : std::span<const float>(),
        token.path.states[k + 1]);
    if (!drafted || !by_step_) return;
    const double keeps = together_probability(target, token.draft_means[k]);
    out_.kept += token.together[k];
    out_.expected += keeps;
    variance_ += keeps * (1.0 - keeps);
  }

  MarChains model_;
  bool by_step_;
  ImageCertificate& out_;
  GaussianCertificate certificate_;
  double variance_ = 0.0;
};

// Samples the watched inner steps again, each in a run of its own image whose noise comes from
// another seed from there on.
Counterfactuals check_decisions(const TokenImageModel& model, const TokenImageDrafter& drafter,
                                std::span<const std::int64_t> labels,
                                const TokenImageOptions& options, const ImageListener& listener,
                                const DecisionWatch& original, std::size_t inner) {
  Counterfactuals out;
  for (const auto& [place, decision] : original.decisions()) {
    TokenImageOptions one = options;
    one.first = place.first;
    DecisionWatch watch({place}, inner);
    TokenImageSampling sampling(
        model, drafter, labels.subspan(place.first - options.first, 1), one,
        {.resample =
             TokenImageRequest::Resample{place.second / inner, place.second % inner, ~options.seed},
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

ImageCertificate certify_token_images(const TokenImageModel& model,
                                      const TokenImageDrafter& drafter,
                                      std::span<const std::int64_t> labels,
                                      const TokenImageOptions& options,
                                      const ImageListener& listener, std::size_t counterfactuals) {
  check_token_images(model, drafter, labels, options);
  const TokenImageSetting setting = token_image_setting(model, drafter, options);
  const auto inner = static_cast<std::size_t>(setting.target.head->transitions());
  ImageCertificate out;
  ChainJudge judge(setting.target, options.rule == Rule::kStepwise, out);
  DecisionWatch watch(seeded_places(options.seed, options.first, labels.size(),
                                    static_cast<std::size_t>(model.tokens()) * inner,
                                    options.fixed_draft ? counterfactuals : 0),
                      inner);
  const auto each = [&](const TokenImageSampling::Round& round) {
    watch(round);
    for (ChainSample* sample : round.sequences) {
      if (!sample->done()) continue;
      judge.judge(*sample);
      sample->forget_tokens();
    }
  };
  TokenImageSampling sampling(model, drafter, labels, options, {.keep_tokens = true, .each = each});
  out.interrupted = !sampling.run(listener);
  for (const ChainSample* sample : sampling.runner().samples()) judge.judge(*sample);
  judge.finish();
  if (!out.interrupted && is_exact(options.rule)) {
    out.counterfactuals = check_decisions(model, drafter, labels, options, listener, watch, inner);
  }
  out.seconds = sampling.seconds();
  return out;
}

}  // namespace forerun
