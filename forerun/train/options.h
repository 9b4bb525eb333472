#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace forerun {

/// Training options of an Objective. Plain values: part of the public API.
struct TrainOptions {
  std::string out;  ///< folder of the checkpoint, the log and the result; created if missing

  std::int64_t steps = 0;       ///< optimizer steps; 0: given by `epochs`
  double epochs = 1.0;          ///< passes over the examples, used if `steps` is 0
  std::size_t batch = 32;       ///< examples a step at most, over all ranks
  std::size_t micro_batch = 4;  ///< examples of one forward and backward pass

  double learning_rate = 6e-4;
  double warmup = 0.04;   ///< share of the steps in which the rate rises
  double min_rate = 0.0;  ///< share of the rate at which the cosine ends
  bool muon = false;      ///< Muon for hidden matrices; else AdamW for all
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip = 1.0;  ///< largest norm of the gradient; 0: not clipped
  double ema = 0.0;   ///< decay of the average of the weights; 0: no average
  bool bf16 = true;   ///< matrix products in bfloat16 (autocast); weights stay float32
  std::uint64_t seed = 0;

  std::int64_t checkpoint_steps = 0;  ///< steps between checkpoints; 0: none by steps
  double checkpoint_seconds = 600.0;  ///< and seconds between them; 0: none by time
  std::int64_t evaluate_steps =
      200;  ///< held-out loss before the first step and at this interval; 0: only at the end
  double time_limit = 0.0;  ///< seconds of this process after which it stops, after at least one
                            ///< step; 0: none
  int threads = 0;          ///< a rank; 0: the cores of the machine over its ranks
  /// What computes: "cpu", "cuda" or "cuda:N" (with a libtorch for CUDA; one rank; text drafters).
  std::string device = "cpu";

  std::string provenance = "{}";  ///< JSON object: command line, data, version; goes into the log
};

/// A figure as a ratio of sums, e.g. the number of right predictions over the number of positions.
struct Figure {
  std::string name;
  double numerator = 0.0, denominator = 0.0;
  double value() const { return denominator != 0.0 ? numerator / denominator : 0.0; }
};

/// A loss over held-out examples, after some step.
struct HeldOut {
  std::int64_t step = 0;
  double loss = 0.0;
  std::vector<Figure> figures;
};

/// Progress of a run after a step.
struct Progress {
  std::int64_t step = 0, steps = 0;  ///< done, of all
  double epoch = 0.0;                ///< passes over the examples so far
  double loss = 0.0;                 ///< of this step, over all ranks
  double smoothed_loss = 0.0;
  double learning_rate = 0.0, gradient_norm = 0.0;  ///< the norm before clipping
  double tokens_per_second = 0.0;                   ///< of this step, over all ranks
  double gflops_per_second = 0.0;                   ///< of its matrix products, likewise
  double step_seconds = 0.0;
  double seconds = 0.0;      ///< of training so far, earlier processes of the run included
  double eta_seconds = 0.0;  ///< until the last step; 0 while unknown
  std::int64_t tokens = 0;   ///< so far
  std::vector<Figure> figures;
  const HeldOut* held_out = nullptr;  ///< the latest, if there is one
};

/// Called on rank 0; `go_on` on every rank.
struct TrainListener {
  std::function<void(const Progress&)> on_step;
  std::function<void(const HeldOut&)> on_held_out;
  std::function<void(const Progress&)> on_checkpoint;  ///< written; the log is flushed
  std::function<void(std::string_view)> on_note;       ///< a line about something unusual
  /// Asked between micro-batches too. False: leave the step or the evaluation under way, write a
  /// checkpoint of the steps taken, return.
  std::function<bool()> go_on;
};

enum class TrainEnd : std::uint8_t { kDone, kInterrupted, kTimeLimit };
std::string_view name_of(TrainEnd end) noexcept;

/// Result of a run.
struct TrainReport {
  TrainEnd end = TrainEnd::kDone;
  int rank = 0;  ///< of this process under mpirun; 0 speaks for all
  std::int64_t step = 0, steps = 0;
  std::int64_t resumed_from = 0;  ///< the step this process began after
  std::int64_t parameters = 0;    ///< numbers in the trained parameters
  std::int64_t tokens = 0;        ///< of all steps
  double seconds = 0.0;           ///< of all steps
  double loss = 0.0, smoothed_loss = 0.0;
  bool has_held_out = false;
  HeldOut held_out;
  std::string checkpoint, log;  ///< paths
};

}  // namespace forerun
#pragma GCC visibility pop
