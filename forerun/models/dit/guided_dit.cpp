#include "forerun/models/dit/guided_dit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "forerun/tensor/parallel_for.h"

namespace forerun {

GuidedOutput run_halves(const DitConfig& c, const DitRows& rows, const Guidance& guidance,
                        const at::Tensor& inputs, const HalfPass& pass) {
  const c10::InferenceMode no_autograd;
  const std::int64_t n = rows.states.size(0), halves = guidance.halves();
  GuidedOutput out{.noise = at::empty({n, c.channels, c.input, c.input}, at::kFloat),
                   .feature = at::empty({n, halves, c.tokens(), c.hidden}, at::kFloat)};
  const at::Tensor noise = at::empty({n, halves, c.channels, c.input, c.input}, at::kFloat);
  parallel_for(0, n * halves, 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode here_too;  // a thread's own
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / halves, half = i % halves;
      const auto at = static_cast<std::size_t>(row);
      const at::Tensor time = at::full({1}, rows.times[at], at::kLong);
      const at::Tensor label = at::full({1}, half == 0 ? rows.labels[at] : c.classes, at::kLong);
      const DitOutput o = pass(row, rows.states.narrow(0, row, 1), time, label,
                               inputs.defined() ? inputs[row].narrow(0, half, 1) : at::Tensor());
      noise[row][half].copy_(o.noise[0]);
      out.feature[row][half].copy_(o.feature[0]);
    }
  });
  for (std::int64_t row = 0; row < n; ++row) out.noise[row].copy_(guided(noise[row], guidance));
  return out;
}

GuidedDit::GuidedDit(std::shared_ptr<const Dit> model, const Guidance& guidance,
                     std::shared_ptr<const Bf16Dit> packed)
    : model_(std::move(model)), packed_(std::move(packed)), guidance_(guidance) {
  if (!std::isfinite(guidance.scale) || guidance.channels < 0 ||
      guidance.channels > model_->config.channels) {
    throw std::invalid_argument(fmt::format("guidance of scale {} on {} channels; the model has {}",
                                            guidance.scale, guidance.channels,
                                            model_->config.channels));
  }
}

GuidedOutput GuidedDit::run(const DitRows& rows) const {
  check_rows(config(), rows);
  if (packed_) return packed_->run(rows, guidance_);
  return run_halves(
      config(), rows, guidance_, {},
      [&](std::int64_t, const at::Tensor& state, const at::Tensor& time, const at::Tensor& label,
          const at::Tensor&) { return run_dit(*model_, state, time, label); });
}

}  // namespace forerun
