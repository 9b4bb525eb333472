#pragma once

#include <string>
#include <string_view>

namespace forerun {

/// The folder that belongs to a model by its name: "DIR/model" + ending of the file
/// "DIR/model.gguf" or of the folder "DIR/model". An absolute path.
std::string beside_model(const std::string& model_path, std::string_view ending);

/// What config.json in a folder calls its network: the first of its "architectures", else its
/// "model_type"; empty where it has neither or there is no such file.
std::string network_in(const std::string& folder);

}  // namespace forerun
