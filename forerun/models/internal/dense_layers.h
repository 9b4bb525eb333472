#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "forerun/models/decoder_config.h"

namespace forerun::internal {

/// Keeps which layers have one MLP in place of experts, if any has, and their width.
/// @param fields  of a config.json or of a GGUF file
/// @param width   the field of the width, which files without such layers need not have
template <class AnyFields>
void keep_dense_layers(std::vector<bool> dense, AnyFields& fields, const char* width,
                       DecoderConfig& c) {
  if (std::find(dense.begin(), dense.end(), true) == dense.end()) return;
  c.dense = std::move(dense);
  c.dense_intermediate = fields.integer(width);
}

/// The first `count` of `layers`.
inline std::vector<bool> first_layers(std::int64_t count, std::int64_t layers) {
  std::vector<bool> out(static_cast<std::size_t>(layers), false);
  std::fill_n(out.begin(), count, true);
  return out;
}

}  // namespace forerun::internal
