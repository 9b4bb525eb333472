#pragma once

#include "forerun/formats/gguf.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/gguf_keys.h"

/// Recurrent layers in the keys of GGUF files. Source: conversion/lfm2.py and conversion/qwen.py in
/// ggml-org/llama.cpp for the keys; src/models/lfm2.cpp, qwen35.cpp and qwen3next.cpp for their
/// meaning.
namespace forerun::internal {

/// Heads of keys too, of which layers with a convolution have none.
void read_lfm2_layers(const Gguf& gguf, GgufKeys& k, DecoderConfig& c);
/// Qwen3-Next's too. Layers that predict further tokens are taken off `layers`.
void read_qwen35_layers(const Gguf& gguf, GgufKeys& k, DecoderConfig& c);

}  // namespace forerun::internal
