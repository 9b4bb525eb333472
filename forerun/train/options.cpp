#include "forerun/train/options.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "forerun/train/internal/options_check.h"

namespace forerun {

std::string_view name_of(TrainEnd end) noexcept {
  switch (end) {
    case TrainEnd::kDone:
      return "done";
    case TrainEnd::kInterrupted:
      return "interrupted";
    case TrainEnd::kTimeLimit:
      return "time limit";
  }
  return "";
}

namespace internal {
namespace {

void need(bool holds, std::string_view what) {
  if (!holds) throw std::invalid_argument(fmt::format("train: {}", what));
}

bool share(double x) { return x >= 0.0 && x < 1.0; }  // false for NaN

bool number(double x) { return std::isfinite(x) && x >= 0.0; }

// Of numbers that a parser may have made of a negative one.
constexpr std::size_t kMostExamples = std::size_t{1} << 24;
bool some(std::size_t n) { return n > 0 && n <= kMostExamples; }
constexpr double kMostRate = 10.0;

}  // namespace

void check(const TrainOptions& o, std::size_t examples, int ranks) {
  need(!o.out.empty(), "name a folder to write to");
  need(examples > 0, "there are no examples to train on; give more data");
  need(o.steps >= 0 && o.steps <= 1LL << 40, "steps must be 0 (by epochs) or more, below 2^40");
  need(o.steps > 0 || (number(o.epochs) && o.epochs > 0.0 && o.epochs < 1e6),
       "epochs must be above 0, below 1e6");
  need(some(o.batch) && some(o.micro_batch),
       fmt::format("batch and micro-batch must be from 1 to {}", kMostExamples));
  need(o.batch >= static_cast<std::size_t>(ranks),
       fmt::format("a batch of {} leaves some of {} ranks without an example; raise the batch",
                   o.batch, ranks));
  need(o.learning_rate > 0.0 && o.learning_rate <= kMostRate,
       fmt::format("a learning rate of {}: it must be above 0, at most {}", o.learning_rate,
                   kMostRate));
  need(share(o.warmup), "warm-up is a share of the steps: 0 or more, below 1");
  need(number(o.min_rate) && o.min_rate <= 1.0, "the last rate is a share: from 0 to 1");
  need(share(o.beta1) && share(o.beta2), "betas must be 0 or more, below 1");
  need(number(o.epsilon) && o.epsilon > 0.0, "epsilon must be above 0");
  need(number(o.weight_decay) && o.weight_decay <= 1e3, "weight decay must be from 0 to 1000");
  need(number(o.clip), "the largest gradient norm must be 0 (not clipped) or more");
  need(share(o.ema), "the decay of the weight average must be 0 (none) or more, below 1");
  need(o.checkpoint_steps >= 0 && number(o.checkpoint_seconds) && o.evaluate_steps >= 0 &&
           number(o.time_limit) && o.threads >= 0,
       "intervals, the time limit and threads must be 0 or more");
}

}  // namespace internal
}  // namespace forerun
