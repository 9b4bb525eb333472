#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "forerun/api/rescore.h"
#include "forerun/api/run.h"
#include "forerun/core/apply_sampling.h"
#include "forerun/core/certificate.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// A draft the rule looked at, as it was when the output was decided.
struct ExaminedDraft {
  std::size_t output = 0;  // index among the sequence's outputs
  Token token = 0;
  bool sampled = false;
  std::vector<float> law;  // log-weights it was sampled from, empty if it was not
};

// Remembers the drafts of a run with one sequence.
std::vector<ExaminedDraft> record(const TextRound& round) {
  std::vector<ExaminedDraft> out;
  const TokenSequence& sequence = *round.sequences[0];
  const TokenDraft& draft = round.drafts[0];
  const std::size_t first = sequence.outputs().size() - round.outcomes[0].emitted;
  for (std::size_t i = 0; i < round.outcomes[0].examined; ++i) {
    ExaminedDraft d{.output = first + i, .token = draft.tokens[i], .sampled = false, .law = {}};
    if (draft.origin == Origin::kSampled && i < draft.laws.size()) {
      const auto w = draft.laws[i].log_weights();
      d.sampled = true;
      d.law.assign(w.begin(), w.end());
    }
    out.push_back(std::move(d));
  }
  return out;
}

RngKey place(const GenerateOptions& o, std::size_t position) {
  return {o.seed, o.request, 0, static_cast<std::uint32_t>(position)};
}

// True if a token that top-k, top-p or min-p cut off may have been kept on the other side of
// rounding: it is if logits that all move by `margin` could keep it. Conservative: asks whether
// slightly looser limits would.
bool at_the_edge(std::span<const float> raw, const SamplingParams& limits, Token y, double margin) {
  SamplingParams loose = limits;
  const double step = limits.greedy() ? 0.0 : margin / limits.temperature;
  loose.top_p = std::min(
      1.0, limits.top_p + std::expm1(2.0 * step) * (1.0 - limits.top_p) * limits.top_p + 1e-6);
  loose.min_p = limits.min_p * std::exp(-2.0 * step);
  loose.top_k = 0;
  std::vector<float> row(raw.begin(), raw.end());
  apply_sampling_(row, loose);
  if (row[static_cast<std::size_t>(y)] == kNegInf) return false;
  if (limits.top_k == 0) return true;
  const float own = raw[static_cast<std::size_t>(y)] + static_cast<float>(2.0 * margin);
  const auto above = std::count_if(raw.begin(), raw.end(), [&](float x) { return x > own; });
  return above < static_cast<std::ptrdiff_t>(limits.top_k);
}

// What plain decoding goes by at one place: the logits, or log p + g under shared noise.
class Choice {
 public:
  /// @param row  [vocab] float32 logits; reshaped in place
  Choice(std::span<float> row, const GenerateOptions& o, std::size_t position, double tie_margin)
      : raw_(row.begin(), row.end()),
        options_(o),
        key_(place(o, position)),
        tie_margin_(tie_margin),
        law_(apply_sampling_(row, o.sampling)) {}

  Token token() const {
    if (const auto* decided = std::get_if<PointMass>(&law_)) return decided->token;
    return sample_shared_noise(std::get<Categorical>(law_), key_).token;
  }
  /// By how much `a` is preferred to `b`, in logits; limits such as top-p left aside.
  double margin(Token a, Token b) const {
    if (options_.sampling.greedy()) return at(raw_, a) - at(raw_, b);
    std::vector<float> scaled = raw_;
    const SamplingParams uncut{.temperature = options_.sampling.temperature};
    const auto p = std::get<Categorical>(apply_sampling_(scaled, uncut));
    return (shared_noise_score(p, a, key_) - shared_noise_score(p, b, key_)) *
           options_.sampling.temperature;
  }
  /// Rounding may prefer either: the margin is small, or a limit decides and one of the two stands
  /// at its edge.
  bool tie(Token a, Token b) const {
    return std::abs(margin(a, b)) < tie_margin_ || at_limit(a) || at_limit(b);
  }

 private:
  static double at(const std::vector<float>& v, Token t) {
    return static_cast<double>(v[static_cast<std::size_t>(t)]);
  }
  bool at_limit(Token t) const {
    const auto* p = std::get_if<Categorical>(&law_);
    return p != nullptr && p->prob(t) == 0.0 &&
           at_the_edge(raw_, options_.sampling, t, tie_margin_);
  }

  std::vector<float> raw_;
  const GenerateOptions& options_;
  RngKey key_;
  double tie_margin_;
  TokenLaw law_;
};

// Scores one generated text again and adds what it shows.
class Judge {
 public:
  Judge(const Model& target, const GenerateOptions& options, Certificate& certificate)
      : target_(target), options_(options), out_(certificate) {}

  void judge(std::size_t prompt_index, std::span<const Token> prompt, const Generated& generated,
             const std::vector<ExaminedDraft>& drafts) {
    auto draft = drafts.begin();
    const auto visit = [&](std::size_t i, std::span<float> row) {
      while (draft != drafts.end() && draft->output < i) ++draft;
      const bool drafted = draft != drafts.end() && draft->output == i;
      const std::size_t position = prompt.size() + i;
      if (out_.deterministic) compare(prompt_index, i, position, row, generated.tokens[i]);
      if (!options_.sampling.greedy()) {
        score(row, position, generated.tokens[i], drafted ? &*draft : nullptr);
      }
    };
    rescore(target_, prompt, generated.tokens, visit);
    out_.tokens += generated.tokens.size();
    out_.statistics.add(generated.statistics);
  }
  CertificateReport report() const { return tokens_.report(); }

 private:
  void compare(std::size_t prompt, std::size_t i, std::size_t position, std::span<float> row,
               Token y) {
    std::vector<float> copy(row.begin(), row.end());
    const Choice choice(copy, options_, position, out_.tie_margin);
    const Token plain = choice.token();
    if (plain == y) return;
    out_.differences.push_back({.prompt = prompt,
                                .position = i,
                                .drafted = y,
                                .plain = plain,
                                .margin = choice.margin(plain, y),
                                .tie = choice.tie(plain, y)});
  }

  void score(std::span<float> row, std::size_t position, Token y, const ExaminedDraft* draft) {
    const SamplingParams& r = options_.sampling;
    const bool cuts = r.top_k > 0 || r.top_p < 1.0 || r.min_p > 0.0;
    const std::vector<float> raw(cuts ? row.begin() : row.end(), row.end());
    const auto p = std::get<Categorical>(apply_sampling_(row, r));
    if (cuts && row[static_cast<std::size_t>(y)] == kNegInf &&
        at_the_edge(raw, r, y, out_.tie_margin)) {
      ++out_.edges;
      return;
    }
    const RngKey key = place(options_, position);
    tokens_.add_output(p, y, key.uniform(Purpose::kCertificate));
    if (draft == nullptr) return;
    if (draft->sampled) {
      tokens_.add_sampled_draft(p, Categorical(draft->law), y);
    } else {
      tokens_.add_point_draft(p, draft->token, y);
    }
  }

  const Model& target_;
  const GenerateOptions& options_;
  Certificate& out_;
  TokenCertificate tokens_;
};

// Scoring again may have found the place already.
void add_once(std::vector<Difference>& to, std::size_t prompt, Difference d) {
  d.prompt = prompt;
  const bool known = std::any_of(to.begin(), to.end(), [&](const Difference& other) {
    return other.prompt == prompt && other.position == d.position;
  });
  if (!known) to.push_back(d);
}

Certificate fresh(const Model& target, const GenerateOptions& options) {
  Certificate c;
  c.deterministic = options.deterministic();
  c.exact = options.exact();
  c.tie_margin = tie_margin(target.precision());
  return c;
}

struct Traced {
  Generated generated;
  std::vector<ExaminedDraft> drafts;
};

Traced traced(const Model& target, const Drafter& drafter, const std::vector<Token>& prompt,
              const GenerateOptions& options, const Listener& listener) {
  Traced t;
  const bool sampled = !options.sampling.greedy();
  const auto observe = [&](const TextRound& round) {
    if (!sampled) return;
    for (ExaminedDraft& d : record(round)) t.drafts.push_back(std::move(d));
  };
  t.generated = std::move(run(target, drafter, {&prompt, 1}, options, listener, observe).front());
  return t;
}

}  // namespace

bool Certificate::passed() const {
  if (tokens == 0 || !report.passed()) return false;
  return std::all_of(differences.begin(), differences.end(),
                     [](const Difference& d) { return d.tie; });
}

std::string Certificate::verdict() const {
  if (tokens == 0) return "nothing to judge";
  if (!deterministic) return passed() ? "no bias found" : "biased";
  if (!passed()) return "different";
  return differences.empty() ? "identical" : "identical up to ties";
}

Certificate certify(const Model& target, const Drafter& drafter,
                    std::span<const std::vector<Token>> prompts, std::size_t tokens,
                    std::size_t per_prompt, const GenerateOptions& options,
                    const Listener& listener) {
  if (prompts.empty()) throw UsageError("certify: no prompts; give a file with at least one");
  Certificate out = fresh(target, options);
  GenerateOptions one = options;
  Judge judge(target, one, out);
  const auto stopped = [&] { return listener.go_on && !listener.go_on(); };
  // Each turn over the prompts has requests, hence randomness, of its own.
  for (std::size_t i = 0; out.tokens < tokens && !stopped(); ++i) {
    if (options.sampling.greedy() && i == prompts.size()) break;  // a second turn would be the same
    const std::vector<Token>& prompt = prompts[i % prompts.size()];
    one.request = options.request + static_cast<std::uint32_t>(i);
    one.max_tokens = static_cast<std::uint32_t>(
        std::min({per_prompt, tokens - out.tokens, std::size_t{1} << 30}));
    const Traced t = traced(target, drafter, prompt, one, listener);
    if (t.generated.tokens.empty()) break;
    judge.judge(i, prompt, t.generated, t.drafts);
    if (!out.deterministic) continue;
    const Generated plain = generate(target, Drafter(), prompt, one, {.go_on = listener.go_on});
    if (stopped()) break;  // half a text is not compared
    const auto d = first_difference(target, prompt, plain.tokens, t.generated.tokens, one);
    if (d) add_once(out.differences, i, *d);
  }
  out.report = judge.report();
  return out;
}

std::pair<Generated, Certificate> generate_certified(const Model& target, const Drafter& drafter,
                                                     std::span<const Token> prompt,
                                                     const GenerateOptions& options,
                                                     const Listener& listener) {
  Certificate certificate = fresh(target, options);
  Judge judge(target, options, certificate);
  const std::vector<Token> tokens(prompt.begin(), prompt.end());
  Traced t = traced(target, drafter, tokens, options, listener);
  judge.judge(0, prompt, t.generated, t.drafts);
  certificate.report = judge.report();
  return {std::move(t.generated), std::move(certificate)};
}

std::optional<Difference> first_difference(const Model& target, std::span<const Token> prompt,
                                           std::span<const Token> plain,
                                           std::span<const Token> drafted,
                                           const GenerateOptions& options) {
  const auto [a, b] = std::mismatch(plain.begin(), plain.end(), drafted.begin(), drafted.end());
  if (a == plain.end() && b == drafted.end()) return std::nullopt;
  Difference out;
  out.position = static_cast<std::size_t>(a - plain.begin());
  if (a == plain.end() || b == drafted.end()) {
    out.one_ended = true;
    return out;
  }
  out.plain = *a;
  out.drafted = *b;
  const auto visit = [&](std::size_t i, std::span<float> row) {
    if (i != out.position) return;
    // The rescoring pass may side with either of the two: what counts is how close they are.
    const Choice choice(row, options, prompt.size() + i, tie_margin(target.precision()));
    out.margin = std::abs(choice.margin(out.plain, out.drafted));
    out.tie = choice.tie(out.plain, out.drafted);
  };
  rescore(target, prompt, plain.first(out.position + 1), visit);
  return out;
}

}  // namespace forerun
