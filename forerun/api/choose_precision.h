#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "forerun/common.h"
#include "forerun/formats/weight_source.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {

/// What of a language model decides its precision.
struct TextModelSizes {
  std::uint64_t weights = 0;
  std::uint64_t largest = 0;     ///< of them in one matrix: the embedding, or the head
  std::uint64_t layer = 0;       ///< of them in the largest layer
  std::uint64_t wide_layer = 0;  ///< the same without those that int4 keeps in 4 bits
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();  ///< bytes of memory
  std::uint64_t four_bits = 0;  ///< of its weights, those that int4 keeps in 4 bits
  bool read = true;             ///< false: the file cannot be read, and its loader will say why
  PassRows rows = PassRows::kFew;
};

/// Weights of a language model's file that int4 keeps in 4 bits.
std::uint64_t weights_in_four_bits(const WeightSource& file);
/// Of the model at `path`, by its tensors.
TextModelSizes text_model_sizes(const std::string& path);

/// The one policy for precisions: `auto` is the fastest that can be had and never fails, anything
/// else is what was requested or a UsageError that names what can be had. Of a file with half of
/// its weights in 4 bits that is int4, where passes have few rows; of others int8. Weights that do
/// not fit the memory in int8 are in int4 where that fits, else they stay in their file.
/// @param path  of the model, for the message
ChosenPrecision text_precision(const std::string& path, PrecisionRequest requested,
                               const CpuFeatures& cpu, const TextModelSizes& sizes = {});
/// For models that compute whole texts in every pass: with AVX2 alone int4 is the faster one for
/// any number of rows.
PassRows rows_of_whole_texts(const CpuFeatures& cpu) noexcept;
/// @param fits  the network's sizes suit the bf16 kernels (Bf16Stack::fits, which is false, too,
/// where the processor lacks the instructions)
ChosenPrecision image_precision(const std::string& path, PrecisionRequest requested,
                                const CpuFeatures& cpu, bool fits);
/// Of the diffusion head of image-token models: bf16 where the processor is faster in it.
ChosenPrecision token_image_precision(const std::string& path, PrecisionRequest requested,
                                      const CpuFeatures& cpu);

}  // namespace forerun
