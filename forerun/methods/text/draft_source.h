#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forerun/core/sequence_id.h"
#include "forerun/core/token.h"

#pragma GCC visibility push(default)
namespace forerun {

/// A text that wants a draft.
struct DraftRequest {
  SequenceId id = 0;            ///< the same in every round of the text
  std::span<const Token> text;  ///< the prompt and the outputs so far
  std::size_t most = 0;         ///< more tokens than this are not used
};

/// A source of drafts that are chosen without a law: each is a function of the texts so far. Such
/// drafts leave the text as plain decoding would write it, under every exact rule and at any
/// temperature; good ones make it faster. The engine cuts them to the length that pays.
class DraftSource {
 public:
  virtual ~DraftSource() = default;
  /// The tokens that may follow each text, most likely fewer than `most`; none is fine. Calls come
  /// from one thread.
  virtual std::vector<std::vector<Token>> propose(std::span<const DraftRequest> texts) = 0;
  /// The text has ended, or begins again: what is kept of it may go.
  virtual void forget(SequenceId /*id*/) {}
};

}  // namespace forerun
#pragma GCC visibility pop
