#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/cli/report/document.h"

namespace forerun::cli::report {

struct Sample {
  double step = 0.0, value = 0.0;
};
using Samples = std::vector<Sample>;  ///< ascending steps

/// The log of a training run, read for a page.
struct TrainingLog {
  struct Curves {
    std::string name;
    Samples trained, held_out;
  };

  std::string objective, provenance, command, version;  ///< "" if the log does not say
  std::vector<std::pair<std::string, std::string>> options;
  Number steps, batch, ranks, threads, clip;
  Number epoch, tokens, seconds;  ///< at the last step
  Curves loss;                    ///< of each step
  Samples smoothed, rate, norm, tokens_per_second, gflops_per_second;
  std::vector<Curves> figures;
  std::vector<double> resumed;  ///< steps after which another process went on

  double last_step() const { return loss.trained.empty() ? 0.0 : loss.trained.back().step; }
};

/// Reads log.jsonl; never fails: lines that are no JSON, and values that are no numbers, are left
/// out.
TrainingLog read_training_log(std::string_view jsonl);

/// At most `most` of them, each the mean of neighbours, at the step of the last of them.
Samples thinned(const Samples& samples, std::size_t most);
/// The middle value; nothing if there is none.
Number median(const Samples& samples);

}  // namespace forerun::cli::report
