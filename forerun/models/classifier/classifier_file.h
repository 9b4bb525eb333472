#pragma once

#include <ATen/core/ScalarType.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "forerun/base/result.h"
#include "forerun/models/classifier/classifier.h"

namespace forerun {

/// From a config.json with "architecture": "classifier". Errors: another kind of network, a missing
/// or mistyped field, sizes out of range.
Result<ClassifierConfig> parse_classifier_config(const nlohmann::json& config);
nlohmann::json classifier_config_json(const ClassifierConfig& config);

/// Reads config.json and model.safetensors.
/// @param type  of all tensors: float32 or float64
/// @throws FormatError  the folder, then what is wrong: no classifier, half a file, a tensor
/// missing, unknown, of another shape or with a value that is not finite
Classifier load_classifier(const std::filesystem::path& folder, at::ScalarType type = at::kFloat);

/// Writes both into `folder`, which is made if missing; weights in bf16.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws FormatError  the folder cannot be written, the disk is full, ...
void save_classifier(const std::filesystem::path& folder, const Classifier& model,
                     const nlohmann::json& provenance = nullptr);

/// A hash of the classifier's weights.
std::string digest_of(const Classifier& model);

}  // namespace forerun
