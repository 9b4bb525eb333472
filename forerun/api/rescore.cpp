#include "forerun/api/rescore.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {

void expect_in_vocabulary(const Model& model, std::span<const Token> tokens) {
  for (const Token t : tokens) {
    if (t >= 0 && static_cast<std::size_t>(t) < model.vocab()) continue;
    throw UsageError(fmt::format("token {} is outside the vocabulary: the model has tokens 0 to {}",
                                 t, model.vocab() - 1));
  }
}

double tie_margin(Precision precision) noexcept {
  switch (precision) {
    case Precision::kF32:
    case Precision::kFile:
      return 1e-3;
    case Precision::kBF16:
      return 0.25;
    case Precision::kInt8:
    case Precision::kInt4:
      break;  // a row's logits do not depend on the rows beside it: no difference is excused
  }
  return 0.0;
}

void rescore(const Model& target, std::span<const Token> prompt, std::span<const Token> outputs,
             const std::function<void(std::size_t, std::span<float>)>& visit, const GoOn& go_on) {
  if (outputs.empty()) return;
  const c10::InferenceMode no_autograd;
  constexpr std::size_t kRows = 64;  // bounds the logits held at once
  const DecoderLm& lm = impl_of(target).lm;
  std::vector<Token> text(prompt.begin(), prompt.end());
  text.insert(text.end(), outputs.begin(), outputs.end() - 1);
  KvCache cache = lm.make_cache();
  prefill(lm, cache, std::span(text).first(prompt.size() - 1), nullptr, {}, go_on);
  for (std::size_t i = 0; i < outputs.size(); i += kRows) {
    expect_to_go_on(go_on);
    const std::size_t n = std::min(kRows, outputs.size() - i);
    const SequenceSpan span{.cache = &cache,
                            .tokens = std::span(text).subspan(prompt.size() - 1 + i, n),
                            .scored = static_cast<std::int64_t>(n)};
    const at::Tensor logits = forward(lm, {&span, 1});
    for (std::size_t r = 0; r < n; ++r) visit(i + r, row_of(logits, static_cast<std::int64_t>(r)));
  }
}

}  // namespace forerun
