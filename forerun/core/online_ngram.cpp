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
  seen.newest = next;
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

// Null: they have not been followed by a token.
const OnlineNgram::Context* OnlineNgram::context_of(Token before, Token last) const {
  if (before == kNoToken || last == kNoToken) return nullptr;
  return contexts_.find(with(with(ngram_key::kEmpty, before), last));
}

double OnlineNgram::evidence(Token before, Token last) const {
  const Context* seen = context_of(before, last);
  if (seen == nullptr) return 0.0;
  return static_cast<double>(seen->tokens) / (seen->tokens + seen->different);
}

std::vector<Token> OnlineNgram::followers(Token before, Token last) const {
  std::vector<Token> out;
  if (last == kNoToken) return out;
  if (const Context* both = context_of(before, last)) out.push_back(both->newest);
  const Context* one = contexts_.find(with(ngram_key::kEmpty, last));
  if (one != nullptr && (out.empty() || out[0] != one->newest)) out.push_back(one->newest);
  return out;
}

std::vector<double> OnlineNgram::probs(Token before, Token last,
                                       std::span<const Token> next) const {
  std::vector<double> p(next.size(), 1.0 / vocab_);
  interpolate(ngram_key::kEmpty, next, p);
  if (last != kNoToken) {
    const std::uint64_t one = with(ngram_key::kEmpty, last);
    interpolate(one, next, p);
    if (before != kNoToken) interpolate(with(with(ngram_key::kEmpty, before), last), next, p);
  }
  return p;
}

std::vector<double> OnlineNgram::log_probs(Token before, Token last,
                                           std::span<const Token> next) const {
  std::vector<double> p = probs(before, last, next);
  for (double& x : p) x = std::log(x);
  return p;
}

}  // namespace forerun
