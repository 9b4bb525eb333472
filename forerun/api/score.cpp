#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/rescore.h"
#include "forerun/engine/token_output.h"
#include "forerun/methods/text/verified_tokens.h"
#include "forerun/text.h"

namespace forerun {
namespace {

void expect_in_context(const Model& model, std::span<const Token> tokens) {
  if (tokens.size() <= model.context()) return;
  throw UsageError(fmt::format("the text has {} tokens, the model's context holds {}: shorten it",
                               tokens.size(), model.context()));
}

// Calls `visit(i, logits)` for every token of a text, until go_on is false between passes. All who
// score a text do it by the same passes: outside int8 rows round as their number in a pass has it.
template <class Visit>
void each_row(const Model& model, std::span<const Token> tokens, const std::function<bool()>& go_on,
              Visit&& visit) {
  constexpr std::size_t kRows = 64;  // bounds the logits held at once
  const c10::InferenceMode no_autograd;
  const DecoderLm& lm = impl_of(model).lm;
  KvCache cache = lm.make_cache();
  for (std::size_t i = 0; i < tokens.size() && (!go_on || go_on()); i += kRows) {
    const auto part = tokens.subspan(i, std::min(kRows, tokens.size() - i));
    const SequenceSpan span{
        .cache = &cache, .tokens = part, .scored = static_cast<std::int64_t>(part.size())};
    const at::Tensor rows = forward(lm, {&span, 1});
    for (std::size_t r = 0; r < part.size(); ++r) {
      visit(i + r, row_of(rows, static_cast<std::int64_t>(r)));
    }
  }
}

}  // namespace

Logits logits(const Model& model, std::span<const Token> tokens,
              const std::function<bool()>& go_on) {
  if (tokens.empty()) throw UsageError("the text holds no token: there is nothing to score");
  expect_in_context(model, tokens);
  Logits result{.rows = 0, .vocab = model.vocab(), .values = {}};
  result.values.reserve(tokens.size() * result.vocab);
  each_row(model, tokens, go_on, [&](std::size_t, std::span<const float> row) {
    result.values.insert(result.values.end(), row.begin(), row.end());
    ++result.rows;
  });
  return result;
}

std::vector<TokenScore> score(const Model& model, std::span<const Token> tokens, std::size_t top,
                              const std::function<bool()>& go_on) {
  expect_in_context(model, tokens);
  expect_in_vocabulary(model, tokens);
  std::vector<TokenScore> out;
  if (tokens.size() < 2) return out;
  each_row(model, tokens, go_on, [&](std::size_t i, std::span<float> row) {
    if (i + 1 == tokens.size()) return;
    TokenOutput t = token_output(0, tokens[i + 1], row, top);
    out.push_back({t.token, t.log_probability, std::move(t.top)});
  });
  return out;
}

}  // namespace forerun
