#include "forerun/api/train_on_ranks.h"

#include <cstdlib>
#include <stdexcept>

#include "forerun/train.h"
#include "forerun/train/device.h"
#include "forerun/train/ranks.h"
#include "forerun/train/trainer.h"

namespace forerun {
namespace {

// oneDNN compiles a kernel for every shape and keeps 1,024; documents have more lengths than that,
// and compiling them again took a sixth of the time of `train dflash`.
void keep_kernels() { setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096", 0); }

}  // namespace

TrainReport train_on_ranks(const TrainOptions& training, const TrainListener& listener,
                           const std::function<std::unique_ptr<Objective>(const Note&)>& make) {
  keep_kernels();
  Ranks ranks = Ranks::join();
  set_threads(training.threads);
  try {
    std::unique_ptr<Objective> objective;
    const Note note = [&](std::string_view line) {
      if (ranks.first() && listener.on_note) listener.on_note(line);
    };
    ranks.together([&] {
      // Before the models are loaded, which takes time and memory.
      if (!device_of(training.device).is_cpu() && ranks.size() > 1) {
        throw UsageError("several ranks compute on the CPU: leave out the device");
      }
      objective = make(note);
    });
    return train(*objective, training, listener, ranks);
  } catch (const UsageError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

}  // namespace forerun
