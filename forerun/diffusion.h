#pragma once

/// The public API of diffusion models: class-conditional Diffusion Transformers.

#include <string>

#include "forerun/train/dit/dit_training.h"
#include "forerun/train/options.h"

namespace forerun {

/// Trains a Diffusion Transformer on images: a folder of IDX files as MNIST has them, whose test
/// images are held out, or of PNG files by class (train/CLASS and test/CLASS, or CLASS alone). The
/// model appears in `training.out` (config.json, model.safetensors) with every checkpoint; a run
/// that ended early is taken up by the same call. Under mpirun all ranks make the call.
/// @throws UsageError   options or data that do not fit
/// @throws FormatError  a folder without images, or with damaged ones
/// Other failures as `train` of train/trainer.h.
TrainReport train_dit(const std::string& data, const DitTraining& options,
                      const TrainOptions& training, const TrainListener& listener = {});

}  // namespace forerun
