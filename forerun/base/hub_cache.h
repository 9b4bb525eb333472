#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun {

/// Where the model lies that a user names: a path that is there, as it is; of "ORG/NAME" the
/// snapshot of the main branch in Hugging Face's cache on this machine, of "ORG/NAME/FILE" that
/// file of it. The folder "models--ORG--NAME" of such a cache means its snapshot as well. A
/// snapshot without safetensors that holds one GGUF model is that file, the first of a split one.
/// Nothing is downloaded; a name of which nothing is there comes back as it is. Error: a snapshot
/// of several GGUF models, by name. Source: "Understand caching" of huggingface_hub's
/// documentation.
Result<std::string> find_model(const std::string& name);

/// The folder of the cache: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, or huggingface/hub
/// in $XDG_CACHE_HOME or ~/.cache; empty: there is no home.
std::filesystem::path hub_cache();

/// What else to do about a model that is nowhere, as the end of a sentence: how to download
/// "ORG/NAME"; empty for other names.
std::string download_hint(std::string_view name);

}  // namespace forerun
