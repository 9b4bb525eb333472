#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "forerun/api/model_impl.h"
#include "forerun/api/rescore.h"
#include "forerun/core/log_sum_exp.h"

namespace forerun {
namespace {

struct Row {
  double kl;
  bool same_best;
};

// KL in nats from the law of `reference` to that of `other`, both softmaxes of logits.
Row compare_rows(std::span<const float> reference, std::span<const float> other) {
  const auto best_p = std::max_element(reference.begin(), reference.end());
  const auto best_q = std::max_element(other.begin(), other.end());
  const double log_p = log_sum_exp(reference), log_q = log_sum_exp(other);
  double kl = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (std::isinf(reference[i])) continue;  // no mass
    const double lp = static_cast<double>(reference[i]) - log_p;
    kl += std::exp(lp) * (lp - (static_cast<double>(other[i]) - log_q));
  }
  return {std::max(kl, 0.0), best_p - reference.begin() == best_q - other.begin()};
}

}  // namespace

Divergence compare(const Model& reference, const Model& other,
                   std::span<const std::vector<Token>> prompts, std::size_t tokens,
                   const GenerateOptions& options, const Listener& listener) {
  if (reference.vocab() != other.vocab()) {
    throw UsageError(
        fmt::format("{} scores {} tokens, {} scores {}: only models of one vocabulary "
                    "can be compared",
                    reference.path(), reference.vocab(), other.path(), other.vocab()));
  }
  const c10::InferenceMode no_autograd;
  Divergence out;
  double sum = 0.0;
  std::size_t same = 0;
  const auto go_on = [&] { return !listener.go_on || listener.go_on(); };
  for (std::size_t i = 0; i < prompts.size() && out.tokens < tokens && go_on(); ++i) {
    GenerateOptions one = options;
    one.request = static_cast<std::uint32_t>(i);
    one.max_tokens =
        static_cast<std::uint32_t>(std::min<std::size_t>(one.max_tokens, tokens - out.tokens));
    const Generated text = generate(other, Drafter(), prompts[i], one, listener);
    std::vector<float> rows;
    const auto keep = [&](std::size_t, std::span<float> row) {
      rows.insert(rows.end(), row.begin(), row.end());
    };
    const std::size_t vocab = reference.vocab();
    const auto score = [&](std::size_t j, std::span<float> row) {
      const Row r = compare_rows(std::span<const float>(rows).subspan(j * vocab, vocab), row);
      sum += r.kl;
      same += r.same_best ? 1 : 0;
      out.worst_kl = std::max(out.worst_kl, r.kl);
      ++out.tokens;
    };
    try {
      rescore(reference, prompts[i], text.tokens, keep, listener.go_on);
      rescore(other, prompts[i], text.tokens, score, listener.go_on);
    } catch (const Interrupted&) {  // what was compared counts
      break;
    }
  }
  if (out.tokens == 0) return out;
  out.kl = sum / static_cast<double>(out.tokens);
  out.top1 = static_cast<double>(same) / static_cast<double>(out.tokens);
  return out;
}

}  // namespace forerun
