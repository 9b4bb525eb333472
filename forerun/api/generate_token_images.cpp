#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/pictures.h"
#include "forerun/api/token_image_impl.h"
#include "forerun/token_image.h"

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
    plain.submit(i, {.label = i % classes, .seed = kSeed, .request = i, .keep_tokens = true});
  }
  std::vector<Event> ignored;
  while (plain.busy()) plain.step(ignored);
  std::vector<const ChainSample*> pointers;
  for (const ChainSample& sample : samples) pointers.push_back(&sample);
  return own_sigmas(draft, plain.target().model().sigmas(), pointers);
}

}  // namespace

void check_token_images(const TokenImageModel& model, const TokenImageDrafter& drafter,
                        std::span<const std::int64_t> labels, const TokenImageOptions& o) {
  constexpr std::size_t kMostImages = 1U << 20;
  constexpr double kMostGuidance = 1000.0;
  if (labels.empty() || labels.size() > kMostImages) {
    throw UsageError(
        fmt::format("{} images: 1 to {} can be asked for", labels.size(), kMostImages));
  }
  for (const std::int64_t label : labels) {
    if (label >= 0 && label < model.classes()) continue;
    throw UsageError(fmt::format("class {}: the model has 0 to {}", label, model.classes() - 1));
  }
  if (o.first > std::numeric_limits<std::uint32_t>::max() - labels.size()) {
    throw UsageError("the places of images go to 2^32");
  }
  if (o.batch_size < 1) throw UsageError("samples: 1 or more images at a time");
  if (!(std::abs(o.guidance) <= kMostGuidance)) {
    throw UsageError(fmt::format("guidance {}: -1000 to 1000; 1 is none", o.guidance));
  }
  if (o.max_draft > model.tokens()) {
    throw UsageError(fmt::format("{} drafts a round (max_draft): an image has {} tokens",
                                 o.max_draft, model.tokens()));
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

TokenImageSetting token_image_setting(const TokenImageModel& model,
                                      const TokenImageDrafter& drafter,
                                      const TokenImageOptions& o) {
  const TokenImageDrafter::Impl& d = impl_of(drafter);
  TokenImageSetting out{.target = chains_of(impl_of(model).network, o),
                        .self = d.self && o.max_draft > 0,
                        .rule = o.rule,
                        .max_draft = o.max_draft,
                        .fixed_draft = o.fixed_draft,
                        .prefill = o.prefill,
                        .max_active = o.batch_size};
  if (d.network) {
    out.draft = chains_of(d.network, o);
    // Its means alone count with an exact rule; the published ones take its own variance.
    if (!is_exact(o.rule)) out.draft->sigmas = measured_sigmas(out);
  }
  return out;
}

TokenImageSampling::TokenImageSampling(const TokenImageModel& model,
                                       const TokenImageDrafter& drafter,
                                       std::span<const std::int64_t> labels,
                                       const TokenImageOptions& options, Extras extras)
    : extras_(std::move(extras)),
      runner_((check_token_images(model, drafter, labels, options),
               token_image_setting(model, drafter, options)),
              [this](const Round& round) { observe(round); }) {
  progress_ = {.of_steps = labels.size() * static_cast<std::uint64_t>(model.tokens()),
               .of_images = labels.size()};
  for (std::uint32_t i = 0; i < labels.size(); ++i) {
    runner_.submit(i, {.label = labels[i],
                       .seed = options.seed,
                       .request = options.first + i,
                       .keep_tokens = extras_.keep_tokens,
                       .previews = i == 0 ? extras_.previews : 0,
                       .resample = extras_.resample});
  }
}

void TokenImageSampling::observe(const Round& round) {
  statistics_.add(round.outcomes, {.drafter = round.seconds.drafter,
                                   .target = round.seconds.target + round.seconds.rest});
  for (std::size_t i = 0; i < round.outcomes.size(); ++i) {
    const Outcome& o = round.outcomes[i];
    progress_.steps += o.emitted;
    progress_.kept += o.accepted;
    progress_.rejected += o.examined - o.accepted;
    progress_.images += round.sequences[i]->done() ? 1 : 0;
  }
  if (extras_.each) extras_.each(round);
}

bool TokenImageSampling::run(const ImageListener& listener, std::uint64_t tokens) {
  const auto start = std::chrono::steady_clock::now();
  const double before = seconds_;
  const std::uint64_t from = statistics_.outputs;
  std::vector<Event> events;
  while (runner_.busy() && statistics_.outputs - from < tokens) {
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
             TokenImageTrace::Token& out) {
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

TokenImageTrace::Fate fate_of(const ChainToken& token, bool drafted, bool kept) {
  using Fate = TokenImageTrace::Fate;
  if (!drafted) return Fate::kOwn;
  if (!kept) return Fate::kRejected;
  return met_again(token) ? Fate::kRemerged : Fate::kKept;
}

// The rounds of the image with this request.
void trace_tokens(const TokenImageSampling::Round& round, std::uint32_t request,
                  const MarConfig& config, TokenImageTrace& trace) {
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const ChainSample& sample = *round.sequences[i];
    if (sample.request() != request) continue;
    const Outcome& o = round.outcomes[i];
    const std::size_t first = sample.step() - o.emitted;
    for (std::size_t j = 0; j < o.emitted; ++j) {
      const ChainToken& token = sample.tokens()[first + j];
      const bool kept = j < o.examined && token.value() == round.drafts[i].paths[j].value();
      const bool drafted = j < o.examined && round.drafts[i].paths[j].states.size() > 1;
      TokenImageTrace::Token out{.round = static_cast<std::uint32_t>(trace.rounds.size()),
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

double TokenImageRun::acceptance() const noexcept { return statistics.acceptance(); }

struct TokenImageGeneration::Impl {
  Impl(const TokenImageModel& m, const TokenImageDrafter& d, std::span<const std::int64_t> labels,
       const TokenImageOptions& o, ImageListener l)
      : model(m),
        drafter(d),
        options((check_token_images(m, d, labels, o), o)),
        listener(std::move(l)),
        pictures({m.channels(), m.side()}, m.path(), o.vae, o.pictures),
        traced(o.trace && o.pictures),
        sampling(m, d, labels, o,
                 {.keep_tokens = true,
                  .previews = traced ? kPreviews : 0,
                  .each = [this](const TokenImageSampling::Round& round) { observe(round); },
                  .on_event = [this](const Event& event) { receive(event); }}) {
    out.trace.side = config().patches_per_side();
    out.exact = is_exact(o.rule);
  }

  const MarConfig& config() const { return impl_of(model).mar->config; }

  void observe(const TokenImageSampling::Round& round) {
    if (traced) trace_tokens(round, options.first, config(), out.trace);
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const ChainSample& sample = *round.sequences[i];
      const Outcome& o = round.outcomes[i];
      for (std::size_t j = 0; j < o.emitted; ++j) {
        const ChainToken& token = sample.tokens()[sample.step() - o.emitted + j];
        out.proposals += token.proposals;
        out.remerged += j < o.accepted && met_again(token) ? 1 : 0;
      }
    }
  }

  void receive(const Event& event) {
    if (const auto* seen = std::get_if<ImagePreview>(&event)) {
      out.trace.images.push_back(
          {static_cast<std::uint32_t>(seen->step), pictures.image(seen->values)});
    } else if (const auto* done = std::get_if<ImageFinished>(&event)) {
      finished.emplace(done->id, *done);
      if (!options.pictures) return;
      const Image& image = images.emplace(done->id, pictures.image(done->values)).first->second;
      if (listener.on_image) {
        listener.on_image(options.first + static_cast<std::uint32_t>(done->id), image);
      }
    }
  }

  static constexpr std::size_t kPreviews = 15;
  TokenImageModel model;
  TokenImageDrafter drafter;
  TokenImageOptions options;
  ImageListener listener;
  Pictures pictures;
  bool traced;
  TokenImageRun out;
  std::map<RequestId, ImageFinished> finished;
  std::map<RequestId, Image> images;
  TokenImageSampling sampling;
};

TokenImageGeneration::TokenImageGeneration(const TokenImageModel& model,
                                           const TokenImageDrafter& drafter,
                                           std::span<const std::int64_t> labels,
                                           const TokenImageOptions& options, ImageListener listener)
    : impl_(std::make_unique<Impl>(model, drafter, labels, options, std::move(listener))) {}
TokenImageGeneration::~TokenImageGeneration() = default;
TokenImageGeneration::TokenImageGeneration(TokenImageGeneration&&) noexcept = default;
TokenImageGeneration& TokenImageGeneration::operator=(TokenImageGeneration&&) noexcept = default;

std::uint64_t TokenImageGeneration::tokens() const noexcept {
  return impl_->sampling.statistics().outputs;
}

bool TokenImageGeneration::advance(std::uint64_t tokens) {
  if (!impl_->sampling.run(impl_->listener, tokens)) impl_->out.interrupted = true;
  return !impl_->out.interrupted && impl_->sampling.busy();
}

TokenImageRun TokenImageGeneration::finish() {
  TokenImageRun out = std::move(impl_->out);
  const TokenImageSampling& sampling = impl_->sampling;
  out.statistics = sampling.statistics();
  const MarChains& target = sampling.runner().target().model();
  out.passes = target.passes();
  out.head_calls = target.head_calls();
  out.head_rows = target.head_rows();
  out.draft_length = sampling.runner().draft_length();
  out.seconds = sampling.seconds();
  const bool first = impl_->images.contains(0);
  for (auto& [id, image] : impl_->finished) {
    out.image_seconds.push_back(image.statistics.seconds.total());
    out.values.push_back(std::move(image.values));
  }
  for (auto& [id, image] : impl_->images) out.images.push_back(std::move(image));
  if (impl_->traced && first) {
    out.trace.images.push_back(
        {static_cast<std::uint32_t>(impl_->model.tokens()), out.images.front()});
  }
  return out;
}

TokenImageRun generate_token_images(const TokenImageModel& model, const TokenImageDrafter& drafter,
                                    std::span<const std::int64_t> labels,
                                    const TokenImageOptions& options,
                                    const ImageListener& listener) {
  TokenImageGeneration generation(model, drafter, labels, options, listener);
  generation.advance(UINT64_MAX);
  return generation.finish();
}

}  // namespace forerun
