#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "forerun/formats/safetensors.h"

namespace forerun {

/// Tensors of a run by name; handles, so reading a checkpoint writes into the run.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes the complete state of a run as one safetensors file with a checksum. The previous file
/// remains until the new one is complete.
/// @param tensors  contiguous float32 on the CPU
/// @throws FormatError  e.g. the disk is full
void write_checkpoint(const std::filesystem::path& path, const NamedTensors& tensors,
                      const nlohmann::json& state);

/// A checkpoint, verified on opening.
class Checkpoint {
 public:
  /// @throws FormatError  not a checkpoint, truncated, or with a wrong checksum
  explicit Checkpoint(const std::filesystem::path& path);

  /// As passed to write_checkpoint.
  const nlohmann::json& state() const noexcept { return state_; }
  /// Copies every tensor's numbers; first checks all names and shapes.
  /// @throws FormatError  other tensors than the file holds
  void restore_(const NamedTensors& tensors) const;

 private:
  std::string path_;
  Safetensors file_;
  nlohmann::json state_;
};

}  // namespace forerun
