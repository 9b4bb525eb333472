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
/// Error: a name not in the table; lists the table. Source: llama-vocab.cpp and
/// convert_hf_to_gguf.py in ggml-org/llama.cpp for the names and for DeepSeek's patterns, the
/// models' tokenizer.json for what the others mean.
Result<PreTokenizer> pre_tokenizer(std::string_view name);

/// Whether texts begin with BOS where the file does not say it. Source: llama-vocab.cpp.
bool begins_with_bos(std::string_view name);

}  // namespace forerun::internal
