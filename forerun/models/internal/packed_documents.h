#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/padded_rows.h"
#include "forerun/models/transformer_block.h"

namespace forerun::internal {

/// The rows of whole documents in a training pass of a decoder's blocks, one document behind the
/// other; a row sees its document up to itself.
class PackedDocuments {
 public:
  /// @param config  of the decoder; kept
  /// @throws std::invalid_argument  no documents, an empty one, or one longer than the context
  PackedDocuments(std::span<const std::span<const Token>> documents, const DecoderConfig& config,
                  const at::Device& device = at::kCPU);
  /// @param padded  attention over all documents at once, padded: faster on all devices
  ///                but the CPU
  PackedDocuments(std::span<const std::span<const Token>> documents, const DecoderConfig& config,
                  const at::Device& device, bool padded);

  /// [rows] int64.
  const at::Tensor& ids() const noexcept { return ids_; }
  std::int64_t rows() const noexcept { return ids_.numel(); }
  const std::vector<std::int64_t>& lengths() const noexcept { return lengths_; }

  /// The attention of a layer; differentiable in queries, keys and values.
  /// @param q      [rows, heads, head_dim]
  /// @param sinks  of the layer's block
  /// @return       [rows, heads * head_dim]
  at::Tensor attention(std::size_t layer, const at::Tensor& q, const KeysValues& own,
                       const at::Tensor& sinks = {}) const;

 private:
  const DecoderConfig& config_;
  at::Tensor ids_;
  std::vector<std::int64_t> lengths_;
  at::Tensor one_by_one(const at::Tensor& q, const KeysValues& own,
                        std::span<const at::Tensor> seen, const at::Tensor& sinks) const;
  at::Tensor at_once(const at::Tensor& q, const KeysValues& own, bool sliding) const;

  std::vector<at::Tensor> seen_, seen_locally_;  // of each document
  std::optional<PaddedRows> padded_;             // if attention is over all at once
};

}  // namespace forerun::internal
