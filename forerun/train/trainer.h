#pragma once

#include <stdexcept>
#include <string>

#include "forerun/train/objective.h"
#include "forerun/train/options.h"
#include "forerun/train/ranks.h"

namespace forerun {

/// Trains until the last step, and goes on from `options.out`/checkpoint.safetensors if that is
/// there: after a kill at any moment the losses are those of a run that was never stopped, bit for
/// bit (same machine, threads, ranks and micro-batch).
///
/// Writes into `options.out`, by rank 0 alone: checkpoint.safetensors (parameters, AdamW's moments,
/// averages), log.jsonl (a line a step), and what Objective::save writes, at every checkpoint.
///
/// @throws std::invalid_argument  options out of range, or other than the checkpoint's: names them
/// @throws FormatError            a broken checkpoint, a folder that cannot be written, a full disk
/// @throws TrainError             the loss or the gradient is not finite; a rank failed
/// In every case the last checkpoint stands as it was.
TrainReport train(Objective& objective, const TrainOptions& options, const TrainListener& listener,
                  Ranks& ranks);

}  // namespace forerun
