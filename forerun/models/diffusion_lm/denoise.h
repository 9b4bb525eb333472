#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "forerun/core/sampling_params.h"
#include "forerun/models/diffusion_lm/diffusion_passes.h"

namespace forerun {

/// Which masked places a step fills in.
enum class Unmasking : std::uint8_t {
  kOrigin,         ///< each with the same probability
  kMaskgitPlus,    ///< those whose token is likeliest
  kTopkMargin,     ///< those whose two likeliest tokens are furthest apart
  kEntropy,        ///< those whose law has the least entropy
  kLowConfidence,  ///< as kMaskgitPlus, the same number in every step, block after block
};

struct DenoiseOptions {
  std::int64_t length = 64;  ///< places after the text
  std::int64_t steps = 64;   ///< passes; with blocks a multiple of their number
  std::int64_t block = 0;    ///< of kLowConfidence: places filled before those after them; 0 = all
  Unmasking unmasking = Unmasking::kEntropy;
  SamplingParams sampling;   ///< greedy: the likeliest token
  double least_time = 1e-3;  ///< at the end of the schedule of all but kLowConfidence
  std::uint64_t seed = 0;
};

/// After each step: its number from 0, and the places, kMaskedToken where nothing stands yet. False
/// ends the run.
using OnDenoised = std::function<bool(std::int64_t step, std::span<const Token> places)>;

/// Writes `length` tokens after a text by itself, in `steps` passes over text and places.
///
/// Time falls evenly from 1 to `least_time`; the step from t to s fills the share 1 - s/t of the
/// masked places, the last one all. kLowConfidence fills as many in every step of a block, the
/// first steps one more where they do not divide.
/// @param text  not empty if predictions are shifted
/// @throws std::invalid_argument  no places or steps, blocks that do not divide them, more
/// positions than the context Source: generation_utils.py of Dream-org/Dream-v0-Instruct-7B;
/// generate.py of ML-GSAI/LLaDA.
std::vector<Token> denoise(const DiffusionPasses& model, std::span<const Token> text,
                           const DenoiseOptions& options, const OnDenoised& on_step = {});

}  // namespace forerun
