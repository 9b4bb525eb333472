#pragma once

#include <memory>
#include <string>
#include <unordered_set>

#include "forerun/base/result.h"
#include "forerun/core/token.h"
#include "forerun/core/token_grammar.h"
#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun {

/// Turns grammars over text into grammars over the tokens of one vocabulary, by xgrammar.
/// Grammars compiled before are kept, within 64 MiB. May be used from several threads.
/// Source: Dong et al. 2024, XGrammar, arXiv:2411.15100.
class GrammarCompiler {
 public:
  /// @param vocab  of the model; at least that of the tokenizer
  /// @param end    tokens that end a text; one at least, or nothing compiles
  GrammarCompiler(const Tokenizer& tokenizer, std::size_t vocab,
                  const std::unordered_set<Token>& end);
  ~GrammarCompiler();

  /// @param ebnf  in xgrammar's notation, with the rule root
  /// Errors: wrong syntax, a grammar without texts, a vocabulary that cannot begin one.
  Result<std::shared_ptr<const TokenGrammar>> compile(const std::string& ebnf) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun
