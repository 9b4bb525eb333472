#include "forerun/train/internal/run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "forerun/train/device.h"
#include "forerun/train/internal/options_check.h"

namespace forerun::internal {
namespace {

const TrainOptions& checked(const TrainOptions& options, const Objective& objective,
                            const Ranks& ranks) {
  check(options, objective.size(), ranks.size());
  return options;
}

// An objective computes where its parameters are.
std::vector<Parameter> expect_on(const at::Device& device, std::vector<Parameter> parameters) {
  for (const Parameter& p : parameters) {
    if (p.value.device().type() == device.type()) continue;
    throw std::invalid_argument(
        "train: this kind of network is trained on the CPU alone; leave out the device");
  }
  return parameters;
}

std::vector<at::Tensor> values_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> out;
  for (const Parameter& p : parameters) out.push_back(p.value);
  return out;
}

std::int64_t steps_of(const TrainOptions& options, const DataOrder& order) {
  if (options.steps > 0) return options.steps;
  const double steps = options.epochs * static_cast<double>(order.steps_per_epoch());
  return std::max<std::int64_t>(std::llround(steps), 1);
}

// Ranks of one machine share its cores; a single rank keeps the program's setting.
void share_cores(int wanted, const Ranks& ranks) {
  if (wanted > 0) {
    at::set_num_threads(wanted);
  } else if (ranks.size() > 1) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    at::set_num_threads(std::max(cores / ranks.local_size(), 1));
  }
}

}  // namespace

Run::Run(Objective& objective, const TrainOptions& options, const TrainListener& listener,
         Ranks& ranks)
    : objective_(objective),
      options_(checked(options, objective, ranks)),
      listener_(listener),
      ranks_(ranks),
      device_(device_of(options.device)),
      parameters_(expect_on(device_, objective.parameters())),
      values_(values_of(parameters_)),
      gradients_(parameters_),
      optimizer_(parameters_,
                 {.adamw = {options.beta1, options.beta2, options.epsilon, options.weight_decay},
                  .muon = options.muon,
                  .products = options.bf16 ? at::kBFloat16 : at::kFloat}),
      average_(parameters_, options.ema),
      order_(objective.size(), options.batch, options.seed),
      steps_(steps_of(options, order_)),
      schedule_(Schedule::of(options.learning_rate, options.min_rate, steps_, options.warmup)),
      folder_(options.out) {
  share_cores(options.threads, ranks);
}

// Asked between micro-batches, on every rank for itself.
bool Run::hears_stop() {
  asked_ = asked_ || (listener_.go_on && !listener_.go_on());
  // Clocks differ: rank 0's decides.
  late_ = late_ || (ranks_.first() && options_.time_limit > 0.0 && now() >= options_.time_limit);
  return asked_ || late_;
}

// Whether the run ends here: the same on all ranks, which ask together.
bool Run::stopping() {
  hears_stop();
  if (ranks_.any(asked_)) {
    stopped_ = TrainEnd::kInterrupted;
  } else if (ranks_.any(late_) && state_.step > resumed_from_) {
    stopped_ = TrainEnd::kTimeLimit;
  }
  return stopped_.has_value();
}

TrainReport Run::to_the_end() {
  start();
  // An earlier process may have ended between its last checkpoint and the steps after it.
  const bool over = state_.step == steps_;
  if (evaluation_due() && evaluate() && over) checkpoint();
  if (over) {
    ranks_.together([&] {
      if (ranks_.first()) save_result();
    });
    if (evaluation_due()) stopping();
  }
  while (state_.step < steps_ && !stopped_) {
    const bool taken = step();
    const bool last = state_.step == steps_;
    if (taken && evaluation_due() && !stopping()) evaluate();
    if (!last || evaluation_due()) stopping();
    const bool by_steps =
        options_.checkpoint_steps > 0 && state_.step % options_.checkpoint_steps == 0;
    const bool by_time = ranks_.any(ranks_.first() && options_.checkpoint_seconds > 0.0 &&
                                    now() - last_checkpoint_at_ >= options_.checkpoint_seconds);
    const bool wanted = last || stopped_ || by_steps || by_time;
    if (wanted && state_.step > std::max(last_checkpoint_, resumed_from_)) checkpoint();
  }
  TrainReport report;
  report.end = stopped_.value_or(TrainEnd::kDone);
  report.rank = ranks_.rank();
  report.step = state_.step;
  report.steps = steps_;
  report.resumed_from = resumed_from_;
  for (const at::Tensor& t : values_) report.parameters += t.numel();
  report.tokens = state_.tokens;
  report.seconds = state_.seconds;
  report.loss = progress_.loss;
  report.smoothed_loss = progress_.smoothed_loss;
  report.has_held_out = state_.held_out.has_value();
  if (state_.held_out) report.held_out = *state_.held_out;
  report.checkpoint = (folder_ / "checkpoint.safetensors").string();
  report.log = (folder_ / "log.jsonl").string();
  return report;
}

bool Run::evaluation_due() const {
  const bool known = state_.held_out && state_.held_out->step == state_.step;
  if (known || objective_.held_out() == 0) return false;
  return state_.step == steps_ ||
         (options_.evaluate_steps > 0 && state_.step % options_.evaluate_steps == 0);
}

void Run::note(std::string_view line) const {
  if (ranks_.first() && listener_.on_note) listener_.on_note(line);
}

double Run::now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

std::span<const at::Tensor> Run::result() const {
  return average_.on() ? average_.values() : values_;
}

}  // namespace forerun::internal
