#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/core/token.h"

namespace forerun {

/// The settings in a Hugging Face model folder.
struct HfConfig {
  nlohmann::json config;      ///< config.json, an object
  nlohmann::json generation;  ///< generation_config.json, an empty object where there is none
  std::vector<Token> end_of_sequence;  ///< ids that end a text; empty where neither file names any
  std::string end_file;                ///< path of the file that names them
};

/// Ids of `eos_token_id`, a number or a list of numbers: of `generation` where it has the key (it
/// lists turn ends as well), else of `config`, or of its text_config. Error: not a whole number, or
/// out of range.
Result<std::vector<Token>> parse_end_of_sequence(const nlohmann::json& config,
                                                 const nlohmann::json& generation);

/// A file that holds a JSON object.
/// @throws FormatError  the path, then what is wrong
nlohmann::json load_json_object(const std::filesystem::path& path);

/// @throws FormatError  no such folder, no config.json, or a file that is not a JSON object
HfConfig load_hf_config(const std::filesystem::path& folder);

}  // namespace forerun
