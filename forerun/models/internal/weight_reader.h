#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/formats/safetensors.h"
#include "forerun/models/model_weight.h"

namespace forerun::internal {

/// Takes tensors out of a file by name and shape; remaining tensors at the end are unknown. Every
/// error is a FormatError.
class WeightReader {
 public:
  /// @param type  of the weights
  /// @param what  what the file describes, for messages: "decoder"
  WeightReader(const Safetensors& file, at::ScalarType type, std::string what);

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// Finite numbers of exactly this shape.
  at::Tensor weight(const std::string& name, const std::vector<std::int64_t>& shape);
  std::vector<std::int64_t> numbers(const std::string& name, std::int64_t count);
  /// Takes an optional tensor that is not used.
  void ignore(const std::string& name) { left_.erase(name); }
  const std::set<std::string>& left() const noexcept { return left_; }
  void expect_nothing_left() const;

 private:
  const TensorView& take(const std::string& name, const std::vector<std::int64_t>& shape);

  const Safetensors& file_;
  at::ScalarType type_;
  std::string what_;
  std::set<std::string> left_;
};

/// A tensor under the name of a file.
struct NamedTensor {
  std::string name;
  at::Tensor value;
  at::ScalarType type = at::kBFloat16;  ///< in the file: bfloat16, float32; int64 stays as it is
};

/// The weights of a network under their names.
/// @param who  for messages
/// @throws std::invalid_argument  one that is undefined or not of its config's shape
std::vector<NamedTensor> named_tensors(std::span<const ModelWeight> weights, std::string_view who);

/// Writes model.safetensors, then config.json, into `folder`, which is created if missing; each
/// file appears complete or not at all.
/// @throws FormatError  the folder cannot be written, the disk is full, ...
void save_model_folder(const std::filesystem::path& folder, const std::vector<NamedTensor>& tensors,
                       const nlohmann::json& config);

}  // namespace forerun::internal
