#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/core/token_grammar.h"

namespace forerun {

/// Changes of logits that a request asks for, by token and by what the text holds so far. They are
/// part of the target's law, before temperature and limits: exactness is relative to the law they
/// give. In this order, as in vLLM.
struct LogitChanges {
  std::vector<std::pair<Token, float>> bias;  ///< added; several of one token add up
  /// Of tokens in the prompt or the outputs: a logit above 0 is divided by it, one below 0
  /// multiplied; 1 = none. Source: Keskar et al. 2019 (CTRL), arXiv:1909.05858, section 4.1.
  double repetition_penalty = 1.0;
  double frequency_penalty = 0.0;  ///< subtracted for every time that the outputs hold the token
  double presence_penalty = 0.0;   ///< subtracted if the outputs hold the token
  /// The outputs that are possible: the logits of others become -infinity. When it ends, end tokens
  /// alone are possible.
  std::shared_ptr<const TokenGrammar> grammar;

  /// Nothing changes.
  bool none() const noexcept {
    return bias.empty() && repetition_penalty == 1.0 && frequency_penalty == 0.0 &&
           presence_penalty == 0.0 && !grammar;
  }
  /// Tokens change with what the text holds.
  bool counts() const noexcept {
    return repetition_penalty != 1.0 || frequency_penalty != 0.0 || presence_penalty != 0.0;
  }
  /// @throws std::invalid_argument  a number that is not finite, a repetition penalty not above 0,
  /// a biased token outside [0, vocab)
  void check(std::size_t vocab) const;
};

/// The changes of the logits that follow a text, which grows. A value; cheap without changes.
/// Copies share a place in the grammar: they belong to one thread.
class ChangedLogits {
 public:
  ChangedLogits() = default;
  ChangedLogits(const LogitChanges& changes, std::span<const Token> prompt,
                std::span<const Token> outputs = {});

  bool none() const noexcept { return !changes_; }
  bool constrained() const noexcept { return walk_ != nullptr; }  ///< there is a grammar
  /// The text goes on with this output.
  void push(Token output);
  /// The tokens that the grammar allows next, valid until the next call; unknown without a grammar.
  AllowedTokens allowed() const;
  /// The logit of a token as bias and penalties change it.
  float of(Token token, float logit) const noexcept;
  /// @param logits  [vocab] float32, changed in place; of a smaller vocabulary its tokens alone
  /// @return  false: the grammar allows no token, and forbids none then
  bool apply_(std::span<float> logits) const;

 private:
  // A token whose logit changes. Sorted by token: texts repeat few of a vocabulary.
  struct Entry {
    Token token = 0;
    bool seen = false;  // in the prompt or the outputs
    std::uint32_t outputs = 0;
    float bias = 0.0F;
  };
  Entry& entry_of(Token token);
  float changed(const Entry& entry, float logit) const noexcept;

  std::shared_ptr<const LogitChanges> changes_;  // null: none
  std::vector<Entry> entries_;
  std::shared_ptr<GrammarWalk> walk_;  // null: no grammar
  std::vector<Token> outputs_;         // with a grammar
};

}  // namespace forerun
