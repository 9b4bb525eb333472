#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/train/adamw.h"
#include "forerun/train/checkpoint.h"
#include "forerun/train/data_order.h"
#include "forerun/train/gradients.h"
#include "forerun/train/internal/kept_blocks.h"
#include "forerun/train/internal/sums.h"
#include "forerun/train/muon.h"
#include "forerun/train/objective.h"
#include "forerun/train/options.h"
#include "forerun/train/pace.h"
#include "forerun/train/ranks.h"
#include "forerun/train/schedule.h"
#include "forerun/train/train_log.h"

namespace forerun::internal {

/// One call of train(): its state, and its parts in order of execution.
class Run {
 public:
  Run(Objective& objective, const TrainOptions& options, const TrainListener& listener,
      Ranks& ranks);
  TrainReport to_the_end();

 private:
  using Clock = std::chrono::steady_clock;

  struct State {  // with the tensors, the content of a checkpoint
    std::int64_t step = 0, tokens = 0;
    double seconds = 0.0;
    double smoothed_sum = 0.0, smoothed_weight = 0.0;
    std::uint64_t log_bytes = 0;
    std::optional<HeldOut> held_out;
  };

  // resume.cpp
  void start();
  void open_folder();
  nlohmann::json fixed_options() const;
  nlohmann::json surroundings() const;
  nlohmann::json state_json() const;
  void take_state(const nlohmann::json& state);
  void compare(const nlohmann::json& made_with) const;
  void compare_first_weights(const nlohmann::json& state);
  void share_state();
  NamedTensors tensors() const;
  void save_result();
  void checkpoint();

  // step.cpp
  struct Accumulated {
    Sums sums;
    bool whole = true;
  };
  Accumulated accumulate(const DataOrder::Batch& batch);
  bool step();  // false: left before it was taken, because the run is to end
  bool evaluation_due() const;
  bool evaluate();  // false: left, or nothing counted
  void report_step(const Sums& sums, double norm, double seconds);
  std::string last_checkpoint_text() const;

  bool hears_stop();
  bool stopping();

  void note(std::string_view line) const;
  double now() const;  // seconds since the process began to train
  std::span<const at::Tensor> result() const;

  KeptBlocks blocks_;  // first: the others hold tensors
  Objective& objective_;
  const TrainOptions& options_;
  const TrainListener& listener_;
  Ranks& ranks_;
  Clock::time_point began_ = Clock::now();

  at::Device device_;
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> values_;
  Gradients gradients_;
  Optimizer optimizer_;
  WeightAverage average_;
  DataOrder order_;
  std::int64_t steps_;
  Schedule schedule_;
  Pace pace_;
  std::filesystem::path folder_;
  std::optional<TrainLog> log_;  // rank 0

  State state_;
  nlohmann::json first_weights_;  // rank 0: what the run began with, before a checkpoint
  Progress progress_;
  double seconds_before_ = 0.0;  // of earlier processes
  double last_step_at_ = 0.0, last_checkpoint_at_ = 0.0;
  std::int64_t last_checkpoint_ = -1, resumed_from_ = 0;
  bool asked_ = false, late_ = false;  // on this rank
  std::optional<TrainEnd> stopped_;    // why the run ends early, on all ranks alike
};

}  // namespace forerun::internal
