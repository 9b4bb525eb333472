#pragma once

#include <cstdlib>
#include <string>

namespace forerun {

/// Path of SmolLM2-135M-Instruct, as downloaded by tools/get_model.sh.
inline std::string demo_model_path() {
  const auto env = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = env("FORERUN_MODEL"); !own.empty()) return own;
  std::string cache = env("FORERUN_MODEL_CACHE");
  if (cache.empty()) {
    const std::string xdg = env("XDG_CACHE_HOME");
    cache = (xdg.empty() ? env("HOME") + "/.cache" : xdg) + "/forerun";
  }
  return cache + "/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace forerun
