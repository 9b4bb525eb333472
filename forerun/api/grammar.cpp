// Grammars over a model's tokens.

#include "forerun/api/model_impl.h"
#include "forerun/formats/grammar/json_grammar.h"
#include "forerun/formats/grammar/regex_grammar.h"

namespace forerun {
namespace {

std::shared_ptr<const TokenGrammar> compiled(const Model::Impl& model,
                                             const Result<std::string>& ebnf,
                                             ReasoningStart reasoning) {
  if (reasoning == ReasoningStart::kChannels && !model.tokenizer.token("<|channel|>")) {
    throw UsageError("the model's vocabulary has no tags of messages: ask for another reasoning");
  }
  if (!ebnf) throw UsageError(ebnf.error().message);
  Grammars& grammars = *model.grammars;
  std::call_once(grammars.made, [&] {
    grammars.compiler = std::make_unique<const GrammarCompiler>(
        model.tokenizer, static_cast<std::size_t>(model.lm.config.vocab), model.end_tokens);
  });
  Result<std::shared_ptr<const TokenGrammar>> grammar = grammars.compiler->compile(*ebnf);
  if (!grammar) throw UsageError(grammar.error().message);
  return *std::move(grammar);
}

}  // namespace

std::shared_ptr<const TokenGrammar> Model::json_grammar(std::string_view schema,
                                                        ReasoningStart reasoning) const {
  return compiled(*impl_, json_schema_grammar(schema, reasoning), reasoning);
}

std::shared_ptr<const TokenGrammar> Model::choice_grammar(std::span<const std::string> texts,
                                                          ReasoningStart reasoning) const {
  return compiled(*impl_, forerun::choice_grammar(texts, reasoning), reasoning);
}

std::shared_ptr<const TokenGrammar> Model::regex_grammar(std::string_view expression,
                                                         ReasoningStart reasoning) const {
  return compiled(*impl_, forerun::regex_grammar(expression, reasoning), reasoning);
}

std::shared_ptr<const TokenGrammar> Model::tool_grammar(std::span<const Tool> tools,
                                                        const ToolCalls& calls) const {
  return compiled(*impl_, tool_call_grammar(tools, calls), calls.reasoning);
}

}  // namespace forerun
