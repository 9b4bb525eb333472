#include "forerun/train/mar/calibrate.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "forerun/models/mar/mar_schedule.h"
#include "forerun/train/mar/mar_batch.h"
#include "forerun/train/objective.h"

namespace forerun {
namespace {

struct LearnedRows {
  at::Tensor clean, noise, condition;  // [rows, 1, dim] twice, [rows, hidden]
};

// Of the first images. In the masked form groups of them have different numbers of known tokens.
LearnedRows learned_rows(const Mar& model, const MarImages& images, std::int64_t count) {
  const MarConfig& c = model.config;
  const std::int64_t group = c.form == MarForm::kMasked ? 4 : count;
  std::vector<at::Tensor> clean, noise, condition;
  for (std::int64_t first = 0; first < count; first += group) {
    std::vector<std::size_t> which(static_cast<std::size_t>(std::min(group, count - first)));
    std::iota(which.begin(), which.end(), static_cast<std::size_t>(first));
    const auto seed = kHeldOutSeed + static_cast<std::uint64_t>(first / group);
    const MarBatch batch =
        mar_batch(c, images, which, seed, {.draws = 1, .drop = 0.0, .flip = false});
    clean.push_back(batch.learned(batch.tokens.reshape({-1, 1, c.dim()})));
    noise.push_back(batch.learned(batch.noise));
    condition.push_back(batch.learned(conditions_of(model, batch)));
  }
  return {at::cat(clean), at::cat(noise), at::cat(condition)};
}

}  // namespace

MarCalibration calibrate(const Mar& model, const MarImages& images, std::int64_t count) {
  const c10::NoGradGuard no_grad;
  const MarConfig& c = model.config;
  const LearnedRows rows = learned_rows(model, images, std::min(count, images.size()));
  std::set<std::int64_t> times;
  for (const std::int64_t steps : {10, 25, 50}) {
    for (const std::int64_t time : mar_times(steps)) times.insert(time);
  }
  MarCalibration out;
  for (const std::int64_t t : times) {
    const at::Tensor time = at::full({rows.clean.size(0)}, t, at::kLong);
    const at::Tensor x = noisy_tokens(c.prediction, rows.clean, time, rows.noise).x;
    const at::Tensor y = run_head(model.head, c, x, time, rows.condition).narrow(2, 0, c.dim());
    const double bar = mar_alpha_bar(t);
    at::Tensor x0 = c.prediction == MarPrediction::kVelocity
                        ? std::sqrt(bar) * x - std::sqrt(1.0 - bar) * y
                        : std::sqrt(1.0 / bar) * x - std::sqrt(1.0 / bar - 1.0) * y;
    if (c.bounded()) x0 = x0.clamp(c.x0_low, c.x0_high);
    const double error = (x0 - rows.clean).square().mean().to(at::kDouble).item<double>();
    out.times.push_back(t);
    out.errors.push_back(std::max(error, 1e-12));
  }
  return out;
}

}  // namespace forerun
