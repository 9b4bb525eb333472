#pragma once

#include <filesystem>
#include <span>

#include "forerun/formats/safetensors.h"

namespace forerun {

/// Writes one safetensors file, under a temporary name until it is complete. Wider numbers come
/// first, so that every tensor is aligned; otherwise in the order given.
/// @param tensors  plain numbers, no Q types; distinct UTF-8 names; `bytes` as long as shape and
/// dtype say
/// @throws std::invalid_argument  a tensor that is not so; names it
/// @throws FormatError            as AtomicFile: the disk is full, ...
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Safetensors::Metadata& metadata = {});

}  // namespace forerun
