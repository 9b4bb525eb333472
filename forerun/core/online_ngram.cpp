#include "forerun/core/online_ngram.h"

#include <cmath>

#include "forerun/core/ngram_key.h"

namespace forerun {
namespace {

using ngram_key::with;

// The empty context has a key too: that of no pair of tokens.
constexpr std::uint64_t kNoContext = ~std::uint64_t{0};

}  // namespace

void OnlineNgram::count(std::uint64_t context, Token next) {
  Context& seen = contexts_[context == ngram_key::kEmpty ? kNoContext : context];
  ++seen.tokens;
  if (++grams_[with(context, next)] == 1) ++seen.different;
}

void OnlineNgram::read(std::span<const Token> text) {
  for (; read_ < text.size(); ++read_) {
    const Token next = text[read_];
    count(ngram_key::kEmpty, next);
    if (read_ >= 1) count(with(ngram_key::kEmpty, text[read_ - 1]), next);
    if (read_ >= 2) {
      count(with(with(ngram_key::kEmpty, text[read_ - 2]), text[read_ - 1]), next);
    }
  }
}

// From the law given one token less, in place.
void OnlineNgram::interpolate(std::uint64_t context, std::span<const Token> next,
                              std::vector<double>& p) const {
  const Context* seen = contexts_.find(context == ngram_key::kEmpty ? kNoContext : context);
  if (seen == nullptr) return;
  const double different = seen->different;
  const double scale = 1.0 / (seen->tokens + different);
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::uint32_t* gram = grams_.find(with(context, next[i]));
    p[i] = ((gram == nullptr ? 0.0 : *gram) + different * p[i]) * scale;
  }
}

std::vector<double> OnlineNgram::log_probs(Token before, Token last,
                                           std::span<const Token> next) const {
  std::vector<double> p(next.size(), 1.0 / vocab_);
  interpolate(ngram_key::kEmpty, next, p);
  if (last != kNoToken) {
    const std::uint64_t one = with(ngram_key::kEmpty, last);
    interpolate(one, next, p);
    if (before != kNoToken) interpolate(with(with(ngram_key::kEmpty, before), last), next, p);
  }
  for (double& x : p) x = std::log(x);
  return p;
}

}  // namespace forerun
