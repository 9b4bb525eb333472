#include <fmt/format.h>

#include "forerun/api/rescore.h"
#include "forerun/engine/token_output.h"
#include "forerun/text.h"

namespace forerun {

std::vector<TokenScore> score(const Model& model, std::span<const Token> tokens, std::size_t top,
                              const std::function<bool()>& go_on) {
  if (tokens.size() > model.context()) {
    throw UsageError(fmt::format("the text has {} tokens, the model's context holds {}: shorten it",
                                 tokens.size(), model.context()));
  }
  for (const Token t : tokens) {
    if (t >= 0 && static_cast<std::size_t>(t) < model.vocab()) continue;
    throw UsageError(fmt::format("token {} is outside the vocabulary: the model has tokens 0 to {}",
                                 t, model.vocab() - 1));
  }
  std::vector<TokenScore> out;
  if (tokens.size() < 2) return out;
  const std::span<const Token> scored = tokens.subspan(1);
  const auto visit = [&](std::size_t i, std::span<float> row) {
    TokenOutput t = token_output(0, scored[i], row, top);
    out.push_back({t.token, t.log_probability, std::move(t.top)});
  };
  try {
    rescore(model, tokens.first(1), scored, visit, go_on);
  } catch (const Interrupted&) {  // those that are there
  }
  return out;
}

}  // namespace forerun
