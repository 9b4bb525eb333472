#pragma once

#include <string>
#include <string_view>

namespace forerun {

/// The folder that belongs to a model by its name: "DIR/model" + ending of the file
/// "DIR/model.gguf", of a part "DIR/model-00001-of-00003.gguf" or of the folder "DIR/model". An
/// absolute path.
std::string beside_model(const std::string& model_path, std::string_view ending);

/// Names, sizes and times of a folder's file `settings` and of its safetensors files, which change
/// when they do; empty where one of the two is missing.
std::string state_of_folder(const std::string& folder, std::string_view settings);

}  // namespace forerun
