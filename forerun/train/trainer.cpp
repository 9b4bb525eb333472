#include "forerun/train/trainer.h"

#include <ATen/ATen.h>

#include "forerun/train/internal/run.h"

namespace forerun {

TrainReport train(Objective& objective, const TrainOptions& options, const TrainListener& listener,
                  Ranks& ranks) {
  internal::Run run(objective, options, listener, ranks);
  return run.to_the_end();
}

}  // namespace forerun
