#include "forerun/train/trainer.h"

#include <optional>

#include "forerun/train/internal/run.h"

namespace forerun {

TrainReport train(Objective& objective, const TrainOptions& options, const TrainListener& listener,
                  Ranks& ranks) {
  std::optional<internal::Run> run;
  ranks.together([&] { run.emplace(objective, options, listener, ranks); });
  return run->to_the_end();
}

}  // namespace forerun
