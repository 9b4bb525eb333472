#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/core/online_ngram.h"
#include "forerun/core/sequence.h"
#include "forerun/core/sequence_id.h"
#include "forerun/methods/diffuspec/diffuspec.h"
#include "forerun/methods/diffuspec/draft_window.h"
#include "forerun/methods/prefilled.h"

namespace forerun {

/// What a diffusion language model has read of each text, and its predictions of the places after
/// it in the round.
class DiffuSpecTexts {
 public:
  explicit DiffuSpecTexts(std::shared_ptr<const DiffuSpec> method) : method_(std::move(method)) {}

  const DiffuSpec& method() const noexcept { return *method_; }
  /// Places that a pass would predict now; 0 where the context of a network without a cache ends,
  /// and after a token that it does not know.
  std::size_t places(const TokenSequence& sequence) const;
  /// Tokens that have to be read before a pass; 0 if they fit into it.
  std::size_t unread(const TokenSequence& sequence) const;
  /// Predicts places of all sequences in one pass, or under kFailFast in several. Of a text with
  /// much to read some is read, and nothing is predicted.
  void predict(std::span<const TokenSequence* const> sequences);

  /// Places that were predicted after the text in this round.
  std::size_t predicted(SequenceId id) const;
  /// [outputs] float32 logits of one of them.
  std::span<const float> logits(SequenceId id, std::size_t place) const;
  /// The proxy's law after the text.
  const NgramLaw& law(const TokenSequence& sequence);
  /// Those of the text so far.
  const OnlineNgram& trigrams(const TokenSequence& sequence);

  /// The result of a round for a text.
  void observe(SequenceId id, std::size_t accepted);
  bool share(SequenceId from, SequenceId to, std::int64_t positions);
  void forget(SequenceId id) { texts_.erase(id); }
  Prefilled prefilled() const noexcept { return prefilled_; }

 private:
  struct Text {
    std::optional<DiffusionText> read;
    std::size_t first = 0;  // position of the first token that it read
    bool shared = false;    // read by another text, and not used yet
    std::optional<OnlineNgram> trigrams;
    DraftWindow window;
    at::Tensor rows;  // [places, outputs] of the round, or undefined
    // Of the next token to read.
    std::size_t position() const { return first + static_cast<std::size_t>(read->length()); }
  };

  Text& text_of(SequenceId id);
  Text& text_to_read(const TokenSequence& sequence);
  std::size_t first_read(const TokenSequence& sequence) const;
  std::size_t room(const TokenSequence& sequence) const;
  bool catch_up(const TokenSequence& sequence);
  void extend(const TokenSequence& sequence);
  bool confident(const at::Tensor& rows, const TokenSequence& sequence) const;
  // kMaskedToken where no prediction is a number.
  Token likeliest_at(SequenceId id, std::size_t place) const;

  std::shared_ptr<const DiffuSpec> method_;
  std::unordered_map<SequenceId, Text> texts_;
  Prefilled prefilled_;
};

}  // namespace forerun
