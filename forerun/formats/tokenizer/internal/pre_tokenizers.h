#pragma once

#include <string_view>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

/// How a family of byte-level tokenizers prepares text.
struct PreTokenizer {
  std::vector<NormalizeStep> normalize;
  std::vector<SplitStep> split;
  bool ignore_merges = false;
};

/// What GGUF's tokenizer.ggml.pre stands for.
/// Error: a name not in the table; lists the table. Source: convert_hf_to_gguf.py in
/// ggml-org/llama.cpp for the names, the models' tokenizer.json for what they mean.
Result<PreTokenizer> pre_tokenizer(std::string_view name);

}  // namespace forerun::internal
