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

/// A Diffusion Transformer of one block that reads what left the last block of a larger one a step
/// before (FREE, arXiv:2511.20390, section 3.2). Patches, positions and labels are the larger
/// network's own.
struct FreeNetwork {
  DitConfig config;  ///< the larger network's, without a learned variance
  /// Ours, beyond the paper: the network is told the fresh noise of the state it reads, which is
  /// what the older feature cannot know, and predicts how the noise differs from what it would be
  /// if the predicted x0 stayed as it was a step before (in units of `free_unit`). It begins as
  /// no difference.
  bool frozen_image = false;
  DitLinear fuse;    ///< [hidden, 2 hidden]: of the embedded patches and the older feature
  at::Tensor fresh;  ///< [hidden, channels * patch * patch]: of the fresh noise; or undefined
  DitBlock block;
  DitHead head;
  DitTime time;
  DitLinear patches;             ///< shared, not trained
  at::Tensor positions, labels;  ///< shared, not trained
};

/// Everything that is trained, by the names of its file.
std::vector<ModelWeight> weights(FreeNetwork& network);

/// A network that begins as "the feature stays as it was": fuse = [0 | 1], the block the identity,
/// time embedding and head the larger network's (whose head reads the feature at the new time).
/// With a frozen image the head begins as zero instead.
FreeNetwork free_from(const Dit& target, std::uint64_t seed, bool frozen_image = false);

/// One pass. Differentiable.
/// @param x        [batch, channels, input, input]
/// @param feature  [batch, tokens, hidden]: of the step before, the larger network's or its own
/// @param time     [batch] int64
/// @param label    [batch] int64
/// @param fresh    [batch, channels, input, input]: (x - mean) / sigma of the step that made x; not
/// read without a frozen image
/// @return  noise (with a frozen image: what is to be added, in units of `free_unit`) and feature
/// of this step
DitOutput run_free(const FreeNetwork& network, const at::Tensor& x, const at::Tensor& feature,
                   const at::Tensor& time, const at::Tensor& label, const at::Tensor& fresh = {});

/// What a difference of predicted noises is measured in: so much in every pixel moves the mean by
/// one standard deviation.
double free_unit(const DdpmStep& step, const DitConfig& config);

/// Multiply-adds of a pass over one image.
double free_pass_work(const DitConfig& config);

/// Reads config.json and model.safetensors.
/// @throws FormatError  the folder, then what is wrong: another network, made for another target
/// (sizes are compared, and a digest of its weights), half a file, ...
FreeNetwork load_free(const std::filesystem::path& folder, const Dit& target);

/// Writes both into `folder`, which is made if missing; weights in bf16.
void save_free(const std::filesystem::path& folder, const FreeNetwork& network, const Dit& target,
               const nlohmann::json& provenance = nullptr);

/// A hash that differs for networks with other weights.
std::string digest_of(const Dit& model);

}  // namespace forerun
