#pragma once

#include <stdexcept>
#include <string>

#include "forerun/train/objective.h"
#include "forerun/train/options.h"
#include "forerun/train/ranks.h"

namespace forerun {

/// Trains until the last step, and resumes from `options.out`/checkpoint.safetensors if it exists:
/// after a kill at any moment the losses equal those of an uninterrupted run bit for bit (same
/// machine, threads, ranks and micro-batch).
///
/// Writes into `options.out`, on rank 0 only: checkpoint.safetensors (parameters, AdamW's moments,
/// averages), log.jsonl (a line a step), and the output of Objective::save at every checkpoint.
///
/// @throws std::invalid_argument  options out of range, or different from the checkpoint's: names
/// them
/// @throws FormatError            a broken checkpoint, a folder that cannot be written, a full disk
/// @throws TrainError             the loss or the gradient is not finite; a rank failed
/// In every case the last checkpoint stands as it was.
TrainReport train(Objective& objective, const TrainOptions& options, const TrainListener& listener,
                  Ranks& ranks);

}  // namespace forerun
