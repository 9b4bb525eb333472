#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/transformer_block.h"

namespace forerun::internal {

/// The rows of whole documents in a training pass of a decoder's blocks, one document behind the
/// other; a row sees its document up to itself.
class PackedDocuments {
 public:
  /// @param config  of the decoder; kept
  /// @throws std::invalid_argument  no documents, an empty one, or one longer than the context
  PackedDocuments(std::span<const std::span<const Token>> documents, const DecoderConfig& config);

  /// [rows] int64, on the CPU.
  const at::Tensor& ids() const noexcept { return ids_; }
  std::int64_t rows() const noexcept { return ids_.numel(); }
  const std::vector<std::int64_t>& lengths() const noexcept { return lengths_; }

  /// The attention of a layer; differentiable in queries, keys and values.
  /// @param q  [rows, heads, head_dim]
  /// @return   [rows, heads * head_dim]
  at::Tensor attention(std::size_t layer, const at::Tensor& q, const KeysValues& own) const;

 private:
  const DecoderConfig& config_;
  at::Tensor ids_;
  std::vector<std::int64_t> lengths_;
  std::vector<at::Tensor> seen_, seen_locally_;  // of each document
};

}  // namespace forerun::internal
