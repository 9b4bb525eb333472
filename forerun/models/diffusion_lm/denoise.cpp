#include "forerun/models/diffusion_lm/denoise.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/categorical.h"
#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

// A token for a masked place, and how sure the model is of it.
struct Filling {
  std::size_t place;
  Token token;
  double confidence;
};

void check_options(const DenoiseOptions& o) {
  const bool blocks = o.unmasking == Unmasking::kLowConfidence && o.block > 0;
  if (o.length < 1 || o.steps < 1 || (!blocks && o.block != 0)) {
    throw std::invalid_argument(
        "denoising: ask for 1 or more places and steps; blocks are of low-confidence alone");
  }
  if (blocks && (o.length % o.block != 0 || o.steps % (o.length / o.block) != 0)) {
    throw std::invalid_argument(fmt::format(
        "denoising: {} places in blocks of {} by {} steps: blocks have to divide the places, and "
        "their number the steps",
        o.length, o.block, o.steps));
  }
  o.sampling.check();
}

// How far the likeliest output is above the next, in probability.
double margin(const Categorical& law) {
  const std::span<const float> weights = law.log_weights();
  const auto best = static_cast<std::size_t>(law.argmax());
  std::size_t next = best == 0 ? weights.size() - 1 : 0;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    if (t != best && weights[t] > weights[next]) next = t;
  }
  return law.prob(law.argmax()) - (next == best ? 0.0 : law.prob(static_cast<Token>(next)));
}

Filling filling(std::span<float> logits, std::size_t place, const DenoiseOptions& o,
                const RngKey& key) {
  if (!o.sampling.greedy()) apply_sampling_(logits, o.sampling);
  const Categorical law(logits);
  const Token output =
      o.sampling.greedy() ? law.argmax() : law.sample(key.uniform(Purpose::kTarget));
  const double confidence = o.unmasking == Unmasking::kEntropy      ? -law.entropy()
                            : o.unmasking == Unmasking::kTopkMargin ? margin(law)
                                                                    : law.prob(output);
  return {.place = place, .token = output, .confidence = confidence};
}

// The share of the masked places that each step fills, in float32 as the reference computes it.
std::vector<float> shares(const DenoiseOptions& o) {
  const at::Tensor time = at::linspace(1.0, o.least_time, o.steps + 1, at::kFloat);
  const float* t = time.const_data_ptr<float>();
  std::vector<float> out;
  for (std::int64_t i = 0; i < o.steps; ++i) {
    out.push_back(i + 1 < o.steps ? 1.0F - t[i + 1] / t[i] : 1.0F);
  }
  return out;
}

// What a step may fill, and how much of it.
struct Choice {
  std::size_t end;     // places before it
  std::int64_t count;  // of kOrigin unused
};

Choice choice(const DenoiseOptions& o, std::int64_t step, std::span<const float> share,
              std::int64_t masked) {
  if (o.unmasking != Unmasking::kLowConfidence) {
    const float count = static_cast<float>(masked) * share[static_cast<std::size_t>(step)];
    return {static_cast<std::size_t>(o.length), static_cast<std::int64_t>(count)};
  }
  const std::int64_t block = o.block > 0 ? o.block : o.length, steps = o.steps * block / o.length;
  const std::int64_t more = step % steps < block % steps ? 1 : 0;
  return {static_cast<std::size_t>((step / steps + 1) * block), block / steps + more};
}

}  // namespace

std::vector<Token> denoise(const DiffusionPasses& model, std::span<const Token> text,
                           const DenoiseOptions& o, const OnDenoised& on_step) {
  check_options(o);
  std::vector<Token> places(static_cast<std::size_t>(o.length), kMaskedToken);
  const std::vector<float> share = shares(o);
  DiffusionText read = model.begin();
  for (std::int64_t step = 0; step < o.steps; ++step) {
    // A network that keeps its text reads its last token again, which predicts the first place.
    const std::span<const Token> fresh = text.subspan(static_cast<std::size_t>(
        std::min<std::int64_t>(read.length(), static_cast<std::int64_t>(text.size()))));
    const MaskedSpan span{.text = &read, .tokens = fresh, .places = places};
    const at::Tensor logits = model.forward({&span, 1}).contiguous();
    if (model.config().attention == DiffusionAttention::kBlock && !text.empty()) {
      read = read.share(static_cast<std::int64_t>(text.size()) - 1);
    }
    const std::int64_t masked = std::count(places.begin(), places.end(), kMaskedToken);
    const Choice wanted = choice(o, step, share, masked);
    std::vector<Filling> found;
    for (std::size_t i = 0; i < wanted.end; ++i) {
      if (places[i] != kMaskedToken) continue;
      // A place is filled once, but may be asked about in every step.
      const RngKey key{.seed = o.seed, .position = static_cast<std::uint32_t>(text.size() + i)};
      const double coin = key.uniform(Purpose::kSharedNoise, static_cast<std::uint32_t>(step));
      const auto filled = static_cast<double>(share[static_cast<std::size_t>(step)]);
      if (o.unmasking == Unmasking::kOrigin && coin >= filled) continue;
      const auto row = static_cast<std::int64_t>(i);
      found.push_back(filling({logits.mutable_data_ptr<float>() + row * logits.size(1),
                               static_cast<std::size_t>(logits.size(1))},
                              i, o, key));
    }
    if (o.unmasking != Unmasking::kOrigin) {
      std::stable_sort(found.begin(), found.end(), [](const Filling& a, const Filling& b) {
        return a.confidence > b.confidence;
      });
      found.resize(std::min(found.size(), static_cast<std::size_t>(wanted.count)));
    }
    for (const Filling& f : found) places[f.place] = model.token(f.token);
    if (on_step && !on_step(step, places)) break;
  }
  return places;
}

}  // namespace forerun
