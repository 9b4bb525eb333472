#include "forerun/train/mar/mar_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/models/mar/mar_masked.h"
#include "forerun/models/mar/mar_schedule.h"
#include "forerun/models/mar/mar_tokens.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

// Changes that the uniforms of an image select; the times of its tokens come after them.
enum : std::uint32_t { kLabel, kFlip, kTimes };
// Positions of the normals: added to tokens, and noise of the draws; of what is known.
enum : std::uint32_t { kOfTokens, kOfDraws, kOfKnown };

const at::Tensor& alpha_bars() {
  static const at::Tensor table = [] {
    const at::Tensor t = at::empty({MarSchedule::kTrained}, at::kDouble);
    for (std::int64_t i = 0; i < t.size(0); ++i) t.data_ptr<double>()[i] = mar_alpha_bar(i);
    return t;
  }();
  return table;
}

// Unknown tokens of every image of a step, whose seed decides: images are divided among processes.
std::int64_t unknown_tokens(std::int64_t tokens, std::uint64_t seed) {
  constexpr double kSpread = 0.25, kLeast = 0.7;
  const RngKey key{.seed = seed, .request = UINT32_MAX, .position = kOfKnown};
  std::array<float, 64> normals{};
  key.fill_normal(Purpose::kDraft, normals);
  double share = kLeast;
  for (const float n : normals) {
    if (share = 1.0 - kSpread * std::abs(double{n}); share >= kLeast) break;
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens) *
                                                                       std::max(share, kLeast))));
}

at::Tensor known_tokens(const MarConfig& c, std::span<const std::size_t> which,
                        std::uint64_t seed) {
  const std::int64_t unknown = unknown_tokens(c.tokens(), seed);
  at::Tensor out = at::zeros({static_cast<std::int64_t>(which.size()), c.tokens()}, at::kBool);
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::vector<std::int64_t> order = random_order(
        c.tokens(),
        {.seed = seed, .request = static_cast<std::uint32_t>(which[i]), .position = kOfKnown});
    bool* const row = out.data_ptr<bool>() + static_cast<std::int64_t>(i) * c.tokens();
    for (std::int64_t t = unknown; t < c.tokens(); ++t)
      row[order[static_cast<std::size_t>(t)]] = true;
  }
  return out;
}

}  // namespace

at::Tensor MarBatch::learned(const at::Tensor& rows) const {
  if (!known.defined()) return rows;
  return rows.index_select(0, known.logical_not().flatten().nonzero().squeeze(1));
}

at::Tensor conditions_of(const Mar& m, const MarBatch& batch) {
  const at::Tensor z = batch.known.defined() ? run_masked(m, batch.tokens, batch.known, batch.label)
                                             : run_causal(m, batch.tokens, batch.label);
  return z.reshape({-1, m.config.hidden});
}

MarBatch mar_batch(const MarConfig& c, const MarImages& images, std::span<const std::size_t> which,
                   std::uint64_t seed, const MarBatchOptions& o) {
  const auto n = static_cast<std::int64_t>(which.size());
  const std::int64_t tokens = c.tokens(), values = tokens * c.dim();
  MarBatch out{.tokens = at::empty({n, tokens, c.dim()}, at::kFloat),
               .label = at::empty({n}, at::kLong),
               .time = at::empty({n * tokens}, at::kLong),
               .noise = at::empty({n * tokens, o.draws, c.dim()}, at::kFloat),
               .known = {}};
  if (c.form == MarForm::kMasked) out.known = known_tokens(c, which, seed);
  parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> added(static_cast<std::size_t>(values));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t image = which[static_cast<std::size_t>(i)];
      RngKey key{.seed = seed, .request = static_cast<std::uint32_t>(image)};
      const auto uniform = [&](std::uint32_t what) { return key.uniform(Purpose::kTarget, what); };
      const std::vector<float> clean =
          mar_tokens(c, images.values(image, o.flip && uniform(kFlip) < 0.5, key));
      key.position = kOfTokens;
      key.fill_normal(Purpose::kDraft, added);
      key.position = kOfDraws;
      key.fill_normal(Purpose::kDraft, {out.noise.data_ptr<float>() + i * o.draws * values,
                                        static_cast<std::size_t>(o.draws * values)});
      key.position = 0;
      float* const to = out.tokens.data_ptr<float>() + i * values;
      for (std::size_t v = 0; v < clean.size(); ++v) {
        to[v] = clean[v] + static_cast<float>(c.noise) * added[v];
      }
      for (std::int64_t t = 0; t < tokens; ++t) {
        const double u = uniform(kTimes + static_cast<std::uint32_t>(t));
        out.time.data_ptr<std::int64_t>()[i * tokens + t] =
            static_cast<std::int64_t>(u * double{MarSchedule::kTrained});
      }
      out.label.data_ptr<std::int64_t>()[i] =
          uniform(kLabel) < o.drop ? c.classes : images.label(image);
    }
  });
  return out;
}

NoisyTokens noisy_tokens(MarPrediction prediction, const at::Tensor& tokens, const at::Tensor& time,
                         const at::Tensor& noise) {
  const at::Tensor bar = alpha_bars().index_select(0, time).view({-1, 1, 1});
  const at::Tensor signal = bar.sqrt().to(noise.scalar_type()),
                   spread = (1.0 - bar).sqrt().to(noise.scalar_type());
  const at::Tensor clean = tokens.reshape({noise.size(0), 1, noise.size(2)});
  return {
      .x = signal * clean + spread * noise,
      .wanted = prediction == MarPrediction::kVelocity ? signal * noise - spread * clean : noise};
}

}  // namespace forerun
