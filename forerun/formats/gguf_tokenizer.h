#pragma once

#include "forerun/base/result.h"
#include "forerun/formats/gguf.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun {

/// The vocabulary in a GGUF file: tokenizer.ggml.model "gpt2" (byte-level BPE) or "llama"
/// (SentencePiece BPE). Error: no vocabulary, another model, or lists of different lengths.
Result<TokenizerSpec> tokenizer_spec(const Gguf& gguf);

}  // namespace forerun
