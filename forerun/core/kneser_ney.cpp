#include "forerun/core/kneser_ney.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "forerun/core/key_table.h"

namespace forerun {
namespace {

using Counts = KeyTable<std::uint64_t>;
using ngram_key::with;

constexpr double kNeverPredicted = -99.0;  // of the beginning, by the format's convention

// How often each n-gram counts, by order.
struct Adjusted {
  Counts one, two, three;
};

Adjusted count(std::span<const std::span<const Token>> documents) {
  Adjusted out;
  for (const std::span<const Token> document : documents) {
    std::uint64_t context = with(ngram_key::kEmpty, BackoffNgram::kBegin);
    for (std::size_t i = 0; i <= document.size(); ++i) {
      const Token token = i < document.size() ? document[i] : BackoffNgram::kEnd;
      if (i < document.size() && (token < 0 || token >= BackoffNgram::kUnknown)) {
        throw std::invalid_argument("n-grams: token " + std::to_string(token) +
                                    " is out of range: ids are from 0 to 2^21 - 5");
      }
      const std::uint64_t gram = with(context, token);
      ++(i == 0 ? out.two : out.three)[gram];
      context = i == 0 ? gram : ngram_key::without_oldest(gram);
    }
  }
  // Each different token before counts once.
  out.three.for_each(
      [&](std::uint64_t gram, std::uint64_t) { ++out.two[ngram_key::without_oldest(gram)]; });
  out.two.for_each(
      [&](std::uint64_t gram, std::uint64_t) { ++out.one[ngram_key::without_oldest(gram)]; });
  return out;
}

// What is taken from n-grams that count 1, 2, and 3 or more.
class Discounts {
 public:
  explicit Discounts(const Counts& counts) {
    std::array<double, 5> of{};  // n-grams that count so much
    counts.for_each([&](std::uint64_t, std::uint64_t n) {
      if (n < of.size()) ++of[n];
    });
    const double y = of[1] / (of[1] + 2.0 * of[2]);
    for (std::size_t k = 1; k < by_count_.size(); ++k) {
      const double discount =
          static_cast<double>(k) - static_cast<double>(k + 1) * y * of[k + 1] / of[k];
      if (!(discount >= 0.0 && discount <= static_cast<double>(k))) {
        by_count_ = {0.0, 0.5, 1.0, 1.5};
        return;
      }
      by_count_[k] = discount;
    }
  }
  double operator()(std::uint64_t n) const { return by_count_[std::min<std::uint64_t>(n, 3)]; }

 private:
  std::array<double, 4> by_count_{};
};

// What follows a context: how much all of it counts, and what discounts leave for lower orders.
struct Context {
  double all = 0.0, left = 0.0;
  double backoff() const { return left / all; }
};

KeyTable<Context> contexts_of(const Counts& counts, const Discounts& discounts) {
  KeyTable<Context> out;
  counts.for_each([&](std::uint64_t gram, std::uint64_t n) {
    Context& context = out[ngram_key::before_newest(gram)];
    context.all += static_cast<double>(n);
    context.left += discounts(n);
  });
  return out;
}

struct Estimate {
  KeyTable<double> p;  // of the n-grams of the order below, by key
  BackoffNgram out;
};

float log10_backoff(const KeyTable<Context>* longer, std::uint64_t gram) {
  const Context* context = longer == nullptr ? nullptr : longer->find(gram);
  return context == nullptr ? 0.0F : static_cast<float>(std::log10(context->backoff()));
}

// Adds the n-grams of an order of two or three.
void add_order(const Counts& counts, const Discounts& discounts, const KeyTable<Context>& contexts,
               const KeyTable<Context>* longer, Estimate& to) {
  KeyTable<double> p;
  counts.for_each([&](std::uint64_t gram, std::uint64_t n) {
    const Context& context = *contexts.find(ngram_key::before_newest(gram));
    const double own = (static_cast<double>(n) - discounts(n)) / context.all;
    const double all = own + context.backoff() * *to.p.find(ngram_key::without_oldest(gram));
    p[gram] = all;
    to.out.add(ngram_key::tokens(gram),
               {static_cast<float>(std::log10(all)), log10_backoff(longer, gram)});
  });
  to.p = std::move(p);
}

// Adds single tokens; the empty context has no key.
void add_tokens(const Counts& counts, const KeyTable<Context>& longer, Estimate& to) {
  const Discounts discounts(counts);
  Context empty;
  counts.for_each([&](std::uint64_t, std::uint64_t n) {
    empty.all += static_cast<double>(n);
    empty.left += discounts(n);
  });
  const double uniform = empty.backoff() / static_cast<double>(counts.size() + 1);
  counts.for_each([&](std::uint64_t gram, std::uint64_t n) {
    const double p = (static_cast<double>(n) - discounts(n)) / empty.all + uniform;
    to.p[gram] = p;
    to.out.add(ngram_key::tokens(gram),
               {static_cast<float>(std::log10(p)), log10_backoff(&longer, gram)});
  });
  const Token begin = BackoffNgram::kBegin, unknown = BackoffNgram::kUnknown;
  to.out.add({&unknown, 1}, {static_cast<float>(std::log10(uniform)), 0.0F});
  to.out.add({&begin, 1}, {static_cast<float>(kNeverPredicted),
                           log10_backoff(&longer, with(ngram_key::kEmpty, begin))});
}

}  // namespace

BackoffNgram estimate_kneser_ney(std::span<const std::span<const Token>> documents) {
  if (documents.empty()) throw std::invalid_argument("n-grams: no documents to count");
  const Adjusted counts = count(documents);
  const Discounts of_two(counts.two), of_three(counts.three);
  const KeyTable<Context> after_one = contexts_of(counts.two, of_two),
                          after_two = contexts_of(counts.three, of_three);
  Estimate estimate;
  add_tokens(counts.one, after_one, estimate);
  add_order(counts.two, of_two, after_one, &after_two, estimate);
  add_order(counts.three, of_three, after_two, nullptr, estimate);
  return std::move(estimate.out);
}

}  // namespace forerun
