// One step: gradients of the micro-batches, one sum over the ranks, one update.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "forerun/train/autocast.h"
#include "forerun/train/internal/run.h"

namespace forerun::internal {
namespace {

constexpr double kSmoothing = 0.98;  // of the smoothed loss: about the last 50 steps

// During its lifetime the parameters have other values.
class WithValues {
 public:
  WithValues(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& values)
      : parameters_(parameters) {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < values.size(); ++i) {
      before_.push_back(parameters[i].detach().clone());
      parameters[i].detach().copy_(values[i]);
    }
  }
  WithValues(const WithValues&) = delete;
  WithValues& operator=(const WithValues&) = delete;
  ~WithValues() {
    for (std::size_t i = 0; i < before_.size(); ++i) parameters_[i].detach().copy_(before_[i]);
  }

 private:
  const std::vector<at::Tensor>& parameters_;
  std::vector<at::Tensor> before_;
};

double number_of(const at::Tensor& loss) { return loss.defined() ? loss.item<double>() : 0.0; }

nlohmann::json values_of(const std::vector<Figure>& figures) {
  nlohmann::json out = nlohmann::json::object();
  for (const Figure& f : figures) out[f.name] = f.value();
  return out;
}

}  // namespace

// Leaves the gradient of the sum of losses of this rank's part in gradients_.
Run::Accumulated Run::accumulate(const DataOrder::Batch& batch) {
  Sums sums;
  gradients_.zero_();
  const auto mine = part_of(batch.examples, ranks_.rank(), ranks_.size());
  // However short the time limit is, every process takes a step.
  const auto leave = [&] { return hears_stop() && (asked_ || state_.step > resumed_from_); };
  const bool whole = in_micro_batches(mine, options_.micro_batch, leave, [&](auto examples) {
    const LossSum part = [&] {
      const Autocast autocast(options_.bf16, device_.type());
      return objective_.loss(examples, batch.seed);
    }();
    const double loss = number_of(part.loss);
    sums.add(loss, part);
    sums.flops += objective_.flops(examples);
    if (part.loss.defined() && std::isfinite(loss)) part.loss.backward();
  });
  return {std::move(sums), whole};
}

std::string Run::last_checkpoint_text() const {
  if (last_checkpoint_ < 0) return "there is no checkpoint yet";
  return fmt::format("the checkpoint of step {} stands", last_checkpoint_);
}

bool Run::step() {
  const double start = now();
  const std::int64_t step = state_.step + 1;
  Accumulated mine;
  ranks_.together([&] { mine = accumulate(order_.of_step(step)); });
  if (ranks_.any(!mine.whole)) return false;
  Sums& sums = mine.sums;
  sums.add_ranks_(ranks_);
  ranks_.sum_(gradients_.values_());

  double norm = 0.0;
  // All ranks hold the same numbers here, so all of them stop or none does.
  ranks_.together([&] {
    if (sums.weight > 0.0) norm = gradients_.norm() / sums.weight;
    if (std::isfinite(sums.loss) && std::isfinite(sums.weight) && std::isfinite(norm)) return;
    throw TrainError(fmt::format(
        "step {}: the {} is not finite, and the step was not taken; {}. Try a lower learning rate, "
        "a longer warm-up, or float32 instead of bfloat16",
        step, std::isfinite(sums.loss) ? "gradient" : "loss", last_checkpoint_text()));
  });
  if (sums.weight > 0.0) {  // else nothing was supervised, and there is nothing to learn
    gradients_.scale_(clip_factor(norm, options_.clip) / sums.weight);
    optimizer_.update_(gradients_.tensors(), schedule_.at(step), step);
  }
  average_.update_(parameters_, step);
  state_.step = step;
  state_.tokens += static_cast<std::int64_t>(sums.tokens);
  report_step(sums, norm, now() - start);
  return true;
}

void Run::report_step(const Sums& sums, double norm, double seconds) {
  const bool any = sums.weight > 0.0;
  const double loss = any ? sums.loss / sums.weight : progress_.loss;
  if (any) {
    state_.smoothed_sum = kSmoothing * state_.smoothed_sum + (1.0 - kSmoothing) * loss;
    state_.smoothed_weight = kSmoothing * state_.smoothed_weight + (1.0 - kSmoothing);
  }
  pace_.add(now() - last_step_at_);
  last_step_at_ = now();
  state_.seconds = seconds_before_ + now();

  Progress& p = progress_;
  p.step = state_.step;
  p.steps = steps_;
  p.epoch = static_cast<double>(p.step) / static_cast<double>(order_.steps_per_epoch());
  p.loss = loss;
  p.smoothed_loss = any ? state_.smoothed_sum / state_.smoothed_weight : p.smoothed_loss;
  p.learning_rate = schedule_.at(p.step);
  p.gradient_norm = norm;
  p.tokens_per_second = seconds > 0.0 ? sums.tokens / seconds : 0.0;
  p.gflops_per_second = seconds > 0.0 ? 1e-9 * sums.flops / seconds : 0.0;
  p.step_seconds = seconds;
  p.seconds = state_.seconds;
  p.eta_seconds = pace_.remaining(steps_ - p.step);
  p.tokens = state_.tokens;
  p.figures = sums.figures;
  p.held_out = state_.held_out ? &*state_.held_out : nullptr;
  ranks_.together([&] {
    if (!log_) return;
    log_->append({{"step", p.step},
                  {"epoch", p.epoch},
                  {"loss", p.loss},
                  {"smoothed_loss", p.smoothed_loss},
                  {"learning_rate", p.learning_rate},
                  {"gradient_norm", p.gradient_norm},
                  {"tokens", p.tokens},
                  {"tokens_per_second", p.tokens_per_second},
                  {"gflops_per_second", p.gflops_per_second},
                  {"step_seconds", p.step_seconds},
                  {"seconds", p.seconds},
                  {"figures", values_of(p.figures)}});
    if (listener_.on_step) listener_.on_step(p);
  });
}

// The loss on the held-out examples, with the weights that would be shipped.
bool Run::evaluate() {
  std::vector<std::size_t> all(objective_.held_out());
  std::iota(all.begin(), all.end(), std::size_t{0});
  Sums sums;
  bool whole = true;
  // A process that has nothing else left to do does it whatever its time limit.
  const auto leave = [&] { return hears_stop() && (asked_ || resumed_from_ < steps_); };
  ranks_.together([&] {
    const WithValues averaged(values_, average_.values());
    const c10::NoGradGuard no_grad;
    whole = in_micro_batches(part_of(all, ranks_.rank(), ranks_.size()), options_.micro_batch,
                             leave, [&](auto examples) {
                               const Autocast autocast(options_.bf16, device_.type());
                               const LossSum part = objective_.held_out_loss(examples);
                               sums.add(number_of(part.loss), part);
                             });
  });
  if (ranks_.any(!whole)) return false;
  sums.add_ranks_(ranks_);
  if (sums.weight <= 0.0) return false;
  ranks_.together([&] {
    if (std::isfinite(sums.loss)) return;
    throw TrainError(fmt::format(
        "step {}: the held-out loss is not finite; {}. Try a lower learning rate, a longer "
        "warm-up, or float32 instead of bfloat16",
        state_.step, last_checkpoint_text()));
  });
  state_.held_out = HeldOut{state_.step, sums.loss / sums.weight, std::move(sums.figures)};
  progress_.held_out = &*state_.held_out;
  ranks_.together([&] {
    if (!log_) return;
    log_->append({{"held_out",
                   {{"step", state_.step},
                    {"loss", state_.held_out->loss},
                    {"figures", values_of(state_.held_out->figures)}}}});
    if (listener_.on_held_out) listener_.on_held_out(*state_.held_out);
  });
  return true;
}

}  // namespace forerun::internal
