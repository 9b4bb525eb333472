#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/train/answers/state_store.h"

namespace forerun {

/// What computes the target's law over the draft vocabulary from its last hidden states.
struct TargetHead {
  at::Tensor norm;  ///< [hidden] float32
  double norm_eps = 1e-5;
  at::Tensor rows;       ///< [draft_vocab, hidden]: of the target's head
  double softcap = 0.0;  ///< 0 = none
  at::Tensor whole;      ///< [vocab, hidden], all of it; undefined where `rows` is
  at::Tensor drafted;    ///< [draft_vocab] int64: ids of `rows` in `whole`
};

/// Runs a target over documents for its hidden states.
class TargetStates {
 public:
  /// @param target  packed or not, on the CPU; or a frozen_decoder on another device, whose states
  ///                are computed as in training (decoder_training.h)
  /// @param head    on the target's device
  /// @param layers  zero-based ids of the blocks whose output is wanted
  TargetStates(std::shared_ptr<const DecoderLm> target, TargetHead head,
               std::vector<std::int64_t> layers);
  /// @param as_training  whether the states are computed as in training, on any device
  TargetStates(std::shared_ptr<const DecoderLm> target, TargetHead head,
               std::vector<std::int64_t> layers, bool as_training);

  struct Batch {
    at::Tensor features;  ///< [rows, layers * hidden] float32, one document behind the other
    at::Tensor last;      ///< [rows, hidden] float32: the output of the target's last block
  };
  /// One packed pass over the documents.
  Batch of(std::span<const std::span<const Token>> documents);
  /// The same for documents by their number in `store`; missing ones are computed, stored
  /// unless the disk is full, and rounded as stored ones are.
  Batch of(std::span<const std::span<const Token>> documents, std::span<const std::size_t> numbers,
           StateStore& store);
  StateStore::Shape shape() const;
  /// Multiply-adds of the matrix products of a row, where they are those of training; else 0.
  double products_of_row() const noexcept { return products_of_row_; }

  /// The law at temperature 1, over the draft vocabulary alone.
  /// @param last  [n, hidden]
  /// @return      [n, draft_vocab] float32
  at::Tensor probabilities(const at::Tensor& last) const;
  /// Share of the law over the whole vocabulary in the draft vocabulary.
  /// @return  [n] float32; undefined if it has all of it
  at::Tensor covered(const at::Tensor& last) const;

 private:
  at::Tensor logits(const at::Tensor& last, const at::Tensor& rows) const;

  std::shared_ptr<const DecoderLm> target_;
  TargetHead head_;
  std::vector<std::int64_t> kept_;  // the layers, and the last block
  bool as_training_;
  double products_of_row_ = 0.0;
  std::vector<KvCache> caches_;  // reused: their pages are large
};

}  // namespace forerun
