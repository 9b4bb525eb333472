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

MarCalibration calibrate(const Mar& model, const MarImages& images, std::int64_t count) {
  const c10::NoGradGuard no_grad;
  const MarConfig& c = model.config;
  std::vector<std::size_t> which(static_cast<std::size_t>(std::min(count, images.size())));
  std::iota(which.begin(), which.end(), std::size_t{0});
  const MarBatch batch =
      mar_batch(c, images, which, kHeldOutSeed, {.draws = 1, .drop = 0.0, .flip = false});
  const at::Tensor condition = run_causal(model, batch.tokens, batch.label).reshape({-1, c.hidden});
  const at::Tensor clean = batch.tokens.reshape({-1, 1, c.dim()});
  std::set<std::int64_t> times;
  for (const std::int64_t steps : {10, 25, 50}) {
    for (const std::int64_t time : mar_times(steps)) times.insert(time);
  }
  MarCalibration out;
  for (const std::int64_t t : times) {
    const at::Tensor time = at::full({clean.size(0)}, t, at::kLong);
    const at::Tensor x = noisy_tokens(c.prediction, batch.tokens, time, batch.noise).x;
    const at::Tensor y = run_head(model.head, c, x, time, condition).narrow(2, 0, c.dim());
    const double bar = mar_alpha_bar(t);
    at::Tensor x0 = c.prediction == MarPrediction::kVelocity
                        ? std::sqrt(bar) * x - std::sqrt(1.0 - bar) * y
                        : std::sqrt(1.0 / bar) * x - std::sqrt(1.0 / bar - 1.0) * y;
    if (c.bounded()) x0 = x0.clamp(c.x0_low, c.x0_high);
    const double error = (x0 - clean).square().mean().to(at::kDouble).item<double>();
    out.times.push_back(t);
    out.errors.push_back(std::max(error, 1e-12));
  }
  return out;
}

}  // namespace forerun
