#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/train/answers/answer_training.h"
#include "forerun/train/objective.h"

namespace forerun {

/// @param vocab  of the target
/// @throws std::invalid_argument  a token outside it: another model made the document
void check_documents(const TokenShards& shards, std::int64_t vocab);

/// The part of one document that is learned: its first tokens.
struct AnswerDocument {
  std::span<const Token> tokens;
  std::int64_t prompt;     ///< the first so many tokens are the prompt
  std::uint64_t key;       ///< of its random numbers
  std::size_t number = 0;  ///< among all documents, the trained ones first

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(tokens.size()); }
};

/// The common part of objectives whose examples are answers of a target: which documents are
/// learned and which held out, and their randomness. Subclasses give the loss.
class AnswerObjective : public Objective {
 public:
  std::size_t size() const final { return trained_; }
  std::size_t held_out() const final { return documents_.size() - trained_; }
  LossSum loss(std::span<const std::size_t> examples, std::uint64_t seed) final;
  LossSum held_out_loss(std::span<const std::size_t> examples) final;

 protected:
  /// @param data     kept mapped
  /// @param vocab    of the target
  /// @param context  of the target: no document is longer
  /// @throws std::invalid_argument  no document has an answer of two tokens to learn from, or a
  /// token lies outside the vocabulary
  AnswerObjective(std::vector<TokenShards> data, std::int64_t vocab, std::int64_t context,
                  const AnswerLossOptions& options);

  /// Of documents in one micro-batch; as Objective::loss.
  virtual LossSum loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) = 0;

  /// All documents by their number.
  std::span<const AnswerDocument> documents() const noexcept { return documents_; }
  /// Of the tokens and prompts, and of what is held out: for the fingerprint.
  std::uint64_t data_hash() const;

 private:
  std::vector<TokenShards> data_;
  std::vector<AnswerDocument> documents_;
  std::size_t trained_ = 0;
};

/// A random word of a document under a seed; a pure function of its arguments.
std::uint32_t random_word(std::uint64_t seed, const AnswerDocument& document, std::uint32_t index);

}  // namespace forerun
