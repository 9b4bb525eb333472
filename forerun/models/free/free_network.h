#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/models/ddpm_schedule.h"
#include "forerun/models/dit/dit.h"

namespace forerun {

/// A Diffusion Transformer of one block that reads the last block's output of a larger one from the
/// previous step (FREE, arXiv:2511.20390, section 3.2). Patches, positions and labels are the
/// larger network's.
struct FreeNetwork {
  DitConfig config;  ///< the larger network's, without a learned variance
  /// Ours, beyond the paper: the network reads the fresh noise of its input state, which the lagged
  /// feature lacks, and predicts how the noise differs from the noise under the previous step's
  /// predicted x0 (in units of `free_unit`). At first it predicts no difference.
  bool frozen_image = false;
  Linear fuse;       ///< [hidden, 2 hidden]: of the embedded patches and the lagged feature
  at::Tensor fresh;  ///< [hidden, channels * patch * patch]: of the fresh noise; or undefined
  DitBlock block;
  DitHead head;
  DitTime time;
  Linear patches;                ///< shared, not trained
  at::Tensor positions, labels;  ///< shared, not trained
};

/// All trained tensors, by their names in the file.
std::vector<ModelWeight> weights(FreeNetwork& network);

/// A network that keeps the feature constant at first: fuse = [0 | 1], the block the identity, time
/// embedding and head the larger network's (whose head reads the feature at the new time). With a
/// frozen image (constant predicted x0) the head starts as zero instead.
FreeNetwork free_from(const Dit& target, std::uint64_t seed, bool frozen_image = false);

/// One pass. Differentiable.
/// @param x        [batch, channels, input, input]
/// @param feature  [batch, tokens, hidden]: of the previous step, the larger network's or its own
/// @param time     [batch] int64
/// @param label    [batch] int64
/// @param fresh    [batch, channels, input, input]: (x - mean) / sigma of the step that made x; not
/// read without a frozen image (constant predicted x0)
/// @return  noise (with a frozen image: what is added to that of a constant predicted x0, in units
/// of `free_unit`) and feature of this step
DitOutput run_free(const FreeNetwork& network, const at::Tensor& x, const at::Tensor& feature,
                   const at::Tensor& time, const at::Tensor& label, const at::Tensor& fresh = {});

/// Unit of a difference of predicted noises: this much in every pixel moves the mean by one
/// standard deviation.
double free_unit(const DdpmStep& step, const DitConfig& config);

/// Multiply-adds of a pass over one image.
double free_pass_work(const DitConfig& config);

/// Reads config.json and model.safetensors.
/// @throws FormatError  the folder, then what is wrong: another network, made for another target
/// (sizes are compared, and a digest of its weights), half a file, ...
FreeNetwork load_free(const std::filesystem::path& folder, const Dit& target);

/// Writes both into `folder`, which is created if missing; weights in bf16.
void save_free(const std::filesystem::path& folder, const FreeNetwork& network, const Dit& target,
               const nlohmann::json& provenance = nullptr);

}  // namespace forerun
