#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/image_impl.h"

namespace forerun {
namespace {

MarSampling sampling_of(const TokenImageOptions& o) {
  MarSampling out{.steps = o.steps, .temperature = o.temperature};
  out.variance = o.variance == TokenVariance::kBeta        ? MarVariance::kBeta
                 : o.variance == TokenVariance::kPosterior ? MarVariance::kPosterior
                                                           : MarVariance::kCalibrated;
  out.final_step =
      o.final_step == TokenFinalStep::kNoisy ? MarFinalStep::kNoisy : MarFinalStep::kTruncate;
  return out;
}

MarChains::Setting chains_of(const std::shared_ptr<const MarNetwork>& network,
                             const TokenImageOptions& o) {
  try {
    return {.network = network,
            .head = std::make_shared<const MarHead>(network, sampling_of(o)),
            .guidance = {.scale = o.guidance,
                         .schedule = o.linear_guidance ? TokenGuidance::Schedule::kLinear
                                                       : TokenGuidance::Schedule::kConstant},
            .sigmas = {}};
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

// The backbone of a masked model as its chains read it; null of a causal one.
std::shared_ptr<const MaskedReader> masked_of(const TokenImageModel& model,
                                              const TokenImageOptions& o) {
  constexpr std::int64_t kPasses = 64;
  if (!model.masked()) return nullptr;
  const std::int64_t passes = o.passes == 0 ? std::min(kPasses, model.tokens()) : o.passes;
  return std::make_shared<const MaskedReader>(impl_of(model).masked, passes);
}

// What a draft model's standard deviations are, of its own: measured on a few plain images.
std::vector<double> measured_sigmas(const TokenImageSetting& setting) {
  constexpr std::uint32_t kImages = 4;
  constexpr std::uint64_t kSeed = 0x0ca11b;
  MarChains draft(*setting.draft);
  std::vector<ChainSample> samples;
  TokenImageRunner plain({.target = setting.target}, [&](const TokenImageRunner::Round& round) {
    for (const ChainSample* sample : round.sequences) {
      if (sample->done()) samples.push_back(*sample);
    }
  });
  const std::int64_t classes = setting.target.network->config().classes;
  for (std::uint32_t i = 0; i < kImages; ++i) {
    plain.submit(i, {.label = i % classes, .seed = kSeed, .request = i, .keep = true});
  }
  std::vector<Event> ignored;
  while (plain.busy()) plain.step(ignored);
  std::vector<const ChainSample*> pointers;
  for (const ChainSample& sample : samples) pointers.push_back(&sample);
  return own_sigmas(draft, plain.target().model().sigmas(), pointers);
}

}  // namespace

void check_images(const TokenImageModel& model, const ImageDrafter& drafter,
                  std::span<const std::int64_t> labels, const TokenImageOptions& o) {
  check_labels(model, labels, o);
  if (impl_of(drafter).predictor) {
    throw UsageError(fmt::format("drafter {} is for Diffusion Transformers; {} is none",
                                 drafter.name(), model.path()));
  }
  if (o.max_draft > model.tokens()) {
    throw UsageError(fmt::format("{} drafts a round (max_draft): an image has {} tokens",
                                 o.max_draft, model.tokens()));
  }
  if (model.masked() && (impl_of(drafter).self || impl_of(drafter).network)) {
    throw UsageError(
        fmt::format("drafter {}: {} is of the masked form, which draws several tokens a pass by "
                    "itself and in which no prefix can be verified in one pass; use drafter none",
                    drafter.name(), model.path()));
  }
  if (model.masked() ? o.passes > model.tokens() : o.passes != 0) {
    throw UsageError(
        fmt::format("{} passes over an image: 1 to {} for a model of the masked form, "
                    "causal ones have one a token",
                    o.passes, model.tokens()));
  }
  if (!is_for_chains(o.rule)) {
    throw UsageError(fmt::format(
        "rule {}: image tokens are sampled by stepwise or path, which are exact, or by the "
        "published paper or code, which are not",
        name_of(o.rule)));
  }
  if (impl_of(drafter).self && o.rule != Rule::kStepwise) {
    throw UsageError(fmt::format(
        "rule {}: drafter self couples by stepwise alone; name a cspd:FOLDER", name_of(o.rule)));
  }
}

TokenImageSetting image_setting(const TokenImageModel& model, const ImageDrafter& drafter,
                                const TokenImageOptions& o) {
  const ImageDrafter::Impl& d = impl_of(drafter);
  TokenImageSetting out{.target = chains_of(impl_of(model).network, o),
                        .self = d.self && o.max_draft > 0,
                        .rule = o.rule,
                        .max_draft = o.max_draft,
                        .fixed_draft = o.fixed_draft,
                        .prefill = o.prefill,
                        .max_active = o.batch_size};
  out.target.masked = masked_of(model, o);
  if (d.network) {
    out.draft = chains_of(d.network, o);
    // Its means alone count with an exact rule; the published ones take its own variance.
    if (!is_exact(o.rule)) out.draft->sigmas = measured_sigmas(out);
  }
  return out;
}

namespace {

using Point = std::pair<float, float>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double out = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) out += a[i] * b[i];
  return out;
}

std::vector<double> difference(const Latent& a, const Latent& b) {
  std::vector<double> out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = static_cast<double>(a[i]) - b[i];
  return out;
}

// Takes `from` out of `v`, and makes it of length 1; false if nothing is left.
bool make_axis(std::vector<double>& v, const std::vector<double>* from) {
  if (from != nullptr) {
    const double along = dot(v, *from);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] -= along * (*from)[i];
  }
  const double length = std::sqrt(dot(v, v));
  if (!(length > 1e-9)) return false;
  for (double& x : v) x /= length;
  return true;
}

// The two chains on the plane of their way and of their largest difference.
void flatten(const std::vector<Latent>& chain, const std::vector<Latent>* draft,
             ImageTrace::Token& out) {
  const std::size_t n = chain.size();
  std::vector<double> way = difference(chain.back(), chain.front());
  if (!make_axis(way, nullptr)) return;
  std::vector<double> across(way.size(), 0.0);
  double most = 0.0;
  for (std::size_t k = 0; draft != nullptr && k < n; ++k) {
    std::vector<double> d = difference((*draft)[k], chain[k]);
    if (const double size = dot(d, d); size > most) {
      most = size;
      across = std::move(d);
    }
  }
  // Chains that never part differ from their way most in the middle.
  if (!make_axis(across, &way)) {
    across = difference(chain[n / 2], chain.front());
    if (!make_axis(across, &way)) across.assign(way.size(), 0.0);
  }
  const auto place = [&](const Latent& x) {
    const std::vector<double> d = difference(x, chain.front());
    return Point{static_cast<float>(dot(d, way)), static_cast<float>(dot(d, across))};
  };
  for (const Latent& x : chain) out.chain.push_back(place(x));
  for (std::size_t k = 0; draft != nullptr && k < n; ++k) out.draft.push_back(place((*draft)[k]));
}

// Of a token that was kept: whether its chain had parted from the draft's.
bool met_again(const ChainToken& token) {
  return std::ranges::find(token.together, 0) != token.together.end();
}

ImageTrace::Fate fate_of(const ChainToken& token, bool drafted, bool kept) {
  using Fate = ImageTrace::Fate;
  if (!drafted) return Fate::kOwn;
  if (!kept) return Fate::kRejected;
  return met_again(token) ? Fate::kRemerged : Fate::kKept;
}

// The rounds of the image with this request.
void trace_tokens(const TokenImageRunner::Round& round, std::span<const Outcome> outcomes,
                  std::uint32_t request, const MarChains& target, ImageTrace& trace) {
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const ChainSample& sample = *round.sequences[i];
    if (sample.request() != request) continue;
    const MarConfig config = target.config_of(sample);
    const Outcome& o = outcomes[i];
    const std::size_t first = sample.step() - o.emitted;
    for (std::size_t j = 0; j < o.emitted; ++j) {
      const ChainToken& token = sample.tokens()[first + j];
      const bool kept = j < o.examined && token.value() == round.drafts[i].paths[j].value();
      const bool drafted = j < o.examined && round.drafts[i].paths[j].states.size() > 1;
      ImageTrace::Token out{.round = static_cast<std::uint32_t>(trace.rounds.size()),
                            .place = static_cast<std::uint32_t>(
                                config.patch_of(static_cast<std::int64_t>(first + j))),
                            .fate = fate_of(token, drafted, kept),
                            .together = token.together};
      flatten(token.path.states, drafted ? &round.drafts[i].paths[j].states : nullptr, out);
      trace.tokens.push_back(std::move(out));
    }
    trace.rounds.push_back({.first = static_cast<std::uint32_t>(first),
                            .drafted = o.drafted,
                            .kept = o.accepted,
                            .emitted = o.emitted});
  }
}

}  // namespace

void record(const TokenImageRunner::Round& round, const TokenImageRunner& runner,
            const TokenImageOptions& options, bool traced, ImageRun& run) {
  const std::vector<Outcome> outcomes = runner.outcomes(round);
  if (traced) {
    run.trace.side = runner.setting().target.network->config().patches_per_side();
    trace_tokens(round, outcomes, options.first, runner.target().model(), run.trace);
  }
  run.calls += outcomes.size();
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const ChainSample& sample = *round.sequences[i];
    const Outcome& o = outcomes[i];
    for (std::size_t j = 0; j < o.emitted; ++j) {
      const ChainToken& token = sample.tokens()[sample.step() - o.emitted + j];
      run.proposals += token.proposals;
      run.remerged += j < o.accepted && met_again(token) ? 1 : 0;
    }
  }
}

void complete(TokenImageRunner& runner, ImageRun& run) {
  const MarChains& target = runner.target().model();
  run.passes = target.passes();
  run.head_calls = target.head_calls();
  run.head_rows = target.head_rows();
  run.draft_length = runner.draft_length();
}

}  // namespace forerun
