#pragma once

#include <filesystem>
#include <string>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/models/gated_lora/gated_lora_file.h"
#include "tests/support/random_adapters.h"
#include "tests/support/tiny_dflash.h"

/// Adapters in files for the tiny target that chats.
namespace forerun::testing {

/// Folder of random adapters, by block.
inline std::string tiny_tidar_path(std::int64_t block) {
  const std::filesystem::path folder = dflash_folder().path() / ("tidar" + std::to_string(block));
  if (!std::filesystem::exists(folder)) {
    const Model& model = chat_model();
    const DecoderConfig& config = impl_of(model).lm.config;
    save_gated_lora(folder, random_adapters(config, model.hash(), block));
  }
  return folder.string();
}

}  // namespace forerun::testing
