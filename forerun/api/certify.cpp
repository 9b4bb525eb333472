#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "forerun/api/certify_traced.h"
#include "forerun/api/rescore.h"
#include "forerun/api/run.h"
#include "forerun/core/apply_sampling.h"
#include "forerun/core/certificate.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// Remembers the examined drafts of a text. None under shared noise: drafters may read the noise
// that decides the outputs, so which outputs have a draft, and which one, depends on it, and no z
// would be a martingale's. The text is compared with plain decoding's instead, and every output
// scored.
std::vector<JudgedDraft> record(const TextRound& round, std::size_t index) {
  std::vector<JudgedDraft> out;
  const TokenSequence& sequence = *round.sequences[index];
  if (sequence.rule() == Rule::kSharedNoise) return out;
  const TokenDraft& draft = round.drafts[index];
  const Outcome& outcome = round.outcomes[index];
  const std::size_t first = sequence.outputs().size() - outcome.emitted;
  for (std::size_t i = 0; i < outcome.examined; ++i) {
    JudgedDraft d{.output = first + i, .tokens = {}, .sampled = false, .law = {}};
    const auto after = static_cast<std::int32_t>(outcome.decided_by(i)) - 1;
    for (std::size_t j = 0; j < draft.size(); ++j) {
      if (draft.parent(j) == after) d.tokens.push_back(draft.tokens[j]);
    }
    if (draft.origin == Origin::kSampled && i < draft.laws.size()) {
      const auto w = draft.laws[i].log_weights();
      d.sampled = true;
      d.law.assign(w.begin(), w.end());
    }
    out.push_back(std::move(d));
  }
  return out;
}

bool cuts(const SamplingParams& s) { return s.top_k > 0 || s.top_p < 1.0 || s.min_p > 0.0; }

// The tokens that limits have left of each output's law.
std::vector<KeptTokens> kept_tokens(const TextRound& round, std::size_t index) {
  std::vector<KeptTokens> out(round.outcomes[index].emitted);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto w =
        std::get<Categorical>(round.verified.at(index, round.outcomes[index].decided_by(i)))
            .log_weights();
    for (std::size_t t = 0; t < w.size(); ++t) {
      if (w[t] != kNegInf) out[i].emplace_back(static_cast<Token>(t), w[t]);
    }
  }
  return out;
}

// How far the logits of a run lie from those of plain passes, measured on the tokens that limits
// have left.
class Rounding {
 public:
  void add(const KeptTokens& kept, std::span<const float> plain, double temperature) {
    double sum = 0.0, squares = 0.0;
    for (const auto& [token, weight] : kept) {  // up to a common offset
      const double off = static_cast<double>(weight) * temperature -
                         static_cast<double>(plain[static_cast<std::size_t>(token)]) -
                         first(kept, plain, temperature);
      sum += off;
      squares += off * off;
    }
    const auto n = static_cast<double>(kept.size());
    if (n < 2.0) return;
    squares_ += std::max(0.0, squares - sum * sum / n);
    freedom_ += n - 1.0;
  }
  /// Four standard deviations of a logit; `most` while too little was seen, and never more.
  double margin(double most) const {
    return freedom_ < 64.0 ? most : std::min(most, 4.0 * std::sqrt(squares_ / freedom_));
  }

 private:
  static double first(const KeptTokens& kept, std::span<const float> plain, double temperature) {
    return static_cast<double>(kept.front().second) * temperature -
           static_cast<double>(plain[static_cast<std::size_t>(kept.front().first)]);
  }
  double squares_ = 0.0, freedom_ = 0.0;
};

RngKey place(const GenerateOptions& o, std::size_t position) {
  return {o.seed, o.request, 0, static_cast<std::uint32_t>(position)};
}

// True if a token that top-k, top-p or min-p cut off may have been kept on the other side of
// rounding: it is if logits that all move by `margin` could keep it. Conservative: tests
// slightly relaxed limits.
bool at_the_edge(std::span<const float> raw, const SamplingParams& limits, Token y, double margin) {
  SamplingParams relaxed = limits;
  const double step = limits.greedy() ? 0.0 : margin / limits.temperature;
  relaxed.top_p = std::min(
      1.0, limits.top_p + std::expm1(2.0 * step) * (1.0 - limits.top_p) * limits.top_p + 1e-6);
  relaxed.min_p = limits.min_p * std::exp(-2.0 * step);
  relaxed.top_k = 0;
  std::vector<float> row(raw.begin(), raw.end());
  apply_sampling_(row, relaxed);
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
  /// @param edge_margin  by how much rounding may move a logit at the edge of a limit
  Choice(std::span<float> row, const GenerateOptions& o, std::size_t position, double tie_margin,
         double edge_margin)
      : raw_(row.begin(), row.end()),
        options_(o),
        key_(place(o, position)),
        tie_margin_(tie_margin),
        edge_margin_(edge_margin),
        law_(apply_sampling_(row, o.sampling)) {}

  Token token() const {
    if (const auto* decided = std::get_if<PointMass>(&law_)) return decided->token;
    const auto& p = std::get<Categorical>(law_);
    if (options_.rule == Rule::kSharedNoise) return sample_shared_noise(p, key_).token;
    return p.sample(key_.uniform(Purpose::kTarget));
  }
  /// By how much `a` is preferred to `b`, in logits; limits such as top-p left aside.
  double margin(Token a, Token b) const {
    if (options_.sampling.greedy()) return at(raw_, a) - at(raw_, b);
    if (options_.rule != Rule::kSharedNoise) return cumulative_margin(b);
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
           at_the_edge(raw_, options_.sampling, t, edge_margin_);
  }
  // How far the logits on one side of `t` have to move until the cumulative probability passes the
  // uniform at `t`.
  double cumulative_margin(Token t) const {
    const auto& p = std::get<Categorical>(law_);
    const double u = key_.uniform(Purpose::kTarget);
    double low = 0.0;
    for (Token i = 0; i < t; ++i) low += p.prob(i);
    const double high = low + p.prob(t), edge = u < low ? low : high;
    if (u >= low && u < high) return 0.0;
    const auto odds = [](double x) { return std::log(x) - std::log1p(-x); };
    return std::abs(odds(u) - odds(std::clamp(edge, 0.0, 1.0))) * options_.sampling.temperature;
  }

  std::vector<float> raw_;
  const GenerateOptions& options_;
  RngKey key_;
  double tie_margin_, edge_margin_;
  TokenLaw law_;
};

// Scores generated texts again and adds what they show.
class Judge {
 public:
  Judge(const Model& target, const GenerateOptions& options, Certificate& certificate)
      : target_(target), options_(options), out_(certificate) {}

  // False if it was interrupted: then the first outputs of the text have been judged.
  bool judge(std::size_t prompt_index, std::span<const Token> prompt, const TracedText& text,
             const GoOn& go_on = {}) {
    const Generated& generated = text.generated;
    auto draft = text.drafts.begin();
    ChangedLogits changed(options_.changes, prompt);
    std::size_t pushed = 0;
    const auto visit = [&](std::size_t i, std::span<float> row) {
      while (draft != text.drafts.end() && draft->output < i) ++draft;
      const bool drafted = draft != text.drafts.end() && draft->output == i;
      while (pushed < i) changed.push(generated.tokens[pushed++]);
      changed.apply_(row);
      if (i < text.kept.size()) rounding_.add(text.kept[i], row, options_.sampling.temperature);
      const std::size_t position = prompt.size() + i;
      if (out_.deterministic) compare(prompt_index, i, position, row, generated.tokens[i]);
      if (!options_.sampling.greedy()) {
        score(row, position, generated.tokens[i], drafted ? &*draft : nullptr);
      }
      ++out_.outputs;
    };
    out_.statistics.add(generated.statistics);
    out_.drafted = out_.statistics.drafted;
    try {
      rescore(target_, prompt, generated.tokens, visit, go_on);
    } catch (const Interrupted&) {
      return false;
    }
    return true;
  }
  CertificateReport report() const { return tokens_.report(); }

 private:
  void compare(std::size_t prompt, std::size_t i, std::size_t position, std::span<float> row,
               Token y) {
    std::vector<float> copy(row.begin(), row.end());
    const Choice choice(copy, options_, position, out_.tie_margin,
                        rounding_.margin(out_.tie_margin));
    const Token plain = choice.token();
    if (plain == y) return;
    out_.differences.push_back({.prompt = prompt,
                                .position = i,
                                .drafted = y,
                                .plain = plain,
                                .margin = choice.margin(plain, y),
                                .tie = choice.tie(plain, y)});
  }

  void score(std::span<float> row, std::size_t position, Token y, const JudgedDraft* draft) {
    const SamplingParams& r = options_.sampling;
    const std::vector<float> raw(cuts(r) ? row.begin() : row.end(), row.end());
    const auto p = std::get<Categorical>(apply_sampling_(row, r));
    if (cuts(r) && row[static_cast<std::size_t>(y)] == kNegInf &&
        at_the_edge(raw, r, y, rounding_.margin(out_.tie_margin))) {
      ++out_.edges;
      return;
    }
    const RngKey key = place(options_, position);
    tokens_.add_output(p, y, key.uniform(Purpose::kCertificate));
    if (draft == nullptr) return;
    if (draft->sampled) {
      tokens_.add_sampled_draft(p, Categorical(draft->law), y);
    } else {
      tokens_.add_point_drafts(p, draft->tokens, y);
    }
  }

  const Model& target_;
  const GenerateOptions& options_;
  Certificate& out_;
  TokenCertificate tokens_;
  Rounding rounding_;
};

// Scoring again may have found the place already.
void add_once(std::vector<Difference>& to, std::size_t prompt, Difference d) {
  d.prompt = prompt;
  const bool known = std::any_of(to.begin(), to.end(), [&](const Difference& other) {
    return other.prompt == prompt && other.position == d.position;
  });
  if (!known) to.push_back(d);
}

// The text is that of plain decoding, bit for bit, where every output is drawn with numbers that no
// draft changes: by every exact rule if drafts are points, found without a law. Rounding in bf16
// moves the edges of limits, and with them all cumulative probabilities: nothing is equal there.
bool equals_plain(const Model& target, const Drafter& drafter, const GenerateOptions& options) {
  if (options.deterministic()) return true;
  const bool points = options.rule == Rule::kMatch || !drafter.has_laws();
  return options.exact() && points &&
         !(cuts(options.sampling) && target.precision() == Precision::kBF16);
}

Certificate fresh(const Model& target, const Drafter& drafter, const GenerateOptions& options) {
  Certificate c;
  c.deterministic = equals_plain(target, drafter, options);
  c.rule = options.rule;
  c.exact = options.exact() && drafter.keeps_law();
  c.tie_margin = tie_margin(target.precision());
  return c;
}

}  // namespace

TracedText traced(const Model& target, const Drafter& drafter, const std::vector<Token>& prompt,
                  const GenerateOptions& options, const Listener& listener) {
  TracedText t;
  const auto observe = [&](const TextRound& round, std::size_t index) {
    if (options.sampling.greedy()) return;
    for (JudgedDraft& d : record(round, index)) t.drafts.push_back(std::move(d));
    if (!cuts(options.sampling)) return;
    for (KeptTokens& k : kept_tokens(round, index)) t.kept.push_back(std::move(k));
  };
  t.generated = std::move(run(target, drafter, {&prompt, 1}, options, listener, observe).front());
  return t;
}

Certificate certify_traced(const Model& target, const Drafter& drafter,
                           std::span<const Token> prompt, const TracedText& text,
                           const GenerateOptions& options, const GoOn& go_on) {
  Certificate certificate = fresh(target, drafter, options);
  Judge judge(target, options, certificate);
  judge.judge(0, prompt, text, go_on);
  certificate.report = judge.report();
  return certificate;
}

Certificate certify(const Model& target, const Drafter& drafter,
                    std::span<const std::vector<Token>> prompts, std::size_t tokens,
                    std::size_t per_prompt, const GenerateOptions& options,
                    const Listener& listener) {
  if (prompts.empty()) throw UsageError("certify: no prompts; give a file with at least one");
  Certificate out = fresh(target, drafter, options);
  GenerateOptions one = options;
  Judge judge(target, one, out);
  const auto stopped = [&] { return listener.go_on && !listener.go_on(); };
  // Each turn over the prompts has requests, hence randomness, of its own.
  for (std::size_t i = 0; out.outputs < tokens && !stopped(); ++i) {
    if (options.sampling.greedy() && i == prompts.size()) break;  // a second turn would be the same
    const std::vector<Token>& prompt = prompts[i % prompts.size()];
    one.request = options.request + static_cast<std::uint32_t>(i);
    one.max_tokens = static_cast<std::uint32_t>(
        std::min({per_prompt, tokens - out.outputs, std::size_t{1} << 30}));
    const TracedText t = traced(target, drafter, prompt, one, listener);
    if (t.generated.tokens.empty()) break;
    if (!judge.judge(i, prompt, t, listener.go_on)) break;
    if (!out.deterministic) continue;
    const Generated plain = generate(target, Drafter(), prompt, one, {.go_on = listener.go_on});
    if (stopped()) break;  // half a text is not compared
    const auto d =
        first_difference(target, prompt, plain.tokens, t.generated.tokens, one, listener.go_on);
    if (d) add_once(out.differences, i, *d);
  }
  out.report = judge.report();
  out.interrupted = stopped();
  return out;
}

std::pair<Generated, Certificate> generate_certified(const Model& target, const Drafter& drafter,
                                                     std::span<const Token> prompt,
                                                     const GenerateOptions& options,
                                                     const Listener& listener) {
  const std::vector<Token> tokens(prompt.begin(), prompt.end());
  TracedText t = traced(target, drafter, tokens, options, listener);
  Certificate certificate = certify_traced(target, drafter, prompt, t, options, listener.go_on);
  return {std::move(t.generated), std::move(certificate)};
}

std::optional<Difference> first_difference(const Model& target, std::span<const Token> prompt,
                                           std::span<const Token> plain,
                                           std::span<const Token> drafted,
                                           const GenerateOptions& options,
                                           const std::function<bool()>& go_on) {
  if (prompt.empty()) throw UsageError("first_difference: the prompt holds no token");
  for (const auto& tokens : {prompt, plain, drafted}) expect_in_vocabulary(target, tokens);
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
    ChangedLogits(options.changes, prompt, plain.first(i)).apply_(row);
    // The rescoring pass may side with either of the two: what counts is how close they are.
    const double margin = tie_margin(target.precision());
    const Choice choice(row, options, prompt.size() + i, margin, margin);
    out.margin = std::abs(choice.margin(out.plain, out.drafted));
    out.tie = choice.tie(out.plain, out.drafted);
  };
  try {
    rescore(target, prompt, plain.first(out.position + 1), visit, go_on);
  } catch (const Interrupted&) {
    return std::nullopt;
  }
  return out;
}

}  // namespace forerun
