#include "forerun/api/run.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "forerun/api/learned.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/stop_filter.h"
#include "forerun/formats/tokenizer/stream_decoder.h"

namespace forerun {
namespace {

void check(const Model& target, const Drafter& drafter, std::span<const std::vector<Token>> prompts,
           const GenerateOptions& options) {
  try {
    options.sampling.check();
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
  const bool finds = !drafter.has_laws() || (drafter.block() && drafter.block()->with_lookup);
  if (options.rule == Rule::kRatioOnSearch && !drafter.none() && finds) {
    throw UsageError(
        fmt::format("ratio-on-search needs a drafter that scores its drafts (draft-model:PATH, "
                    "dflash:PATH); '{}' finds some: use --rule maximal, which is exact",
                    drafter.name()));
  }
  for (const auto& prompt : prompts) {
    if (prompt.empty()) {
      throw UsageError("the prompt holds no token: give some text, or drop --raw");
    }
    if (prompt.size() >= target.context()) {
      throw UsageError(
          fmt::format("the prompt has {} tokens, the model's context holds {}: shorten the prompt",
                      prompt.size(), target.context()));
    }
  }
}

// Sampled drafts must not be planned from an earlier run of the same seed and request: that run was
// decided by the numbers this one will draw again.
bool carries(const Drafter& drafter, const GenerateOptions& options) {
  const bool sampled = drafter.has_laws() && draft_mode(options.rule) == DraftMode::kSample;
  return !options.fixed_draft && !sampled;
}

// Goes on from what earlier runs with this drafter learned.
DraftLength control_of(const Model& target, const Drafter& drafter, const GenerateOptions& options,
                       Planned planned) {
  if (options.fixed_draft) return DraftLength({.planned = planned, .adaptive = false});
  if (!carries(drafter, options)) return DraftLength({.planned = planned});
  Drafter::Learned& learned = drafter.learned();
  const std::scoped_lock lock(learned.mutex);
  const bool fits = learned.target == &target.impl() && learned.rule == options.rule;
  return fits && learned.control ? *learned.control : DraftLength({.planned = planned});
}

void keep_learned(const Model& target, const Drafter& drafter, const GenerateOptions& options,
                  const AnyDrafter& proposer) {
  if (!carries(drafter, options) || proposer.control() == nullptr) return;
  Drafter::Learned& learned = drafter.learned();
  const std::scoped_lock lock(learned.mutex);
  learned.control = *proposer.control();
  learned.target = &target.impl();
  learned.rule = options.rule;
}

template <class Kind>
AnyDrafter paced(Kind kind, const Model& target, const Drafter& drafter,
                 const GenerateOptions& options) {
  return AnyDrafter(Paced<Kind>(
      std::move(kind), control_of(target, drafter, options, Kind::kPlanned), options.max_draft));
}

AnyDrafter make_drafter(const Model& target, const Drafter& drafter,
                        const GenerateOptions& options) {
  if (drafter.none() || options.max_draft == 0) return AnyDrafter(NoDrafter());
  if (const Drafter::Block* block = drafter.block()) {
    DFlashDrafter dflash(block->network, options.sampling, draft_mode(options.rule),
                         options.rule == Rule::kRatioOnSearch);
    if (!block->with_lookup) return paced(std::move(dflash), target, drafter, options);
    return paced(DFlashLookupDrafter(std::move(dflash)), target, drafter, options);
  }
  if (!drafter.model()) return paced(LookupDrafter(), target, drafter, options);
  return paced(
      DraftModelDrafter(drafter.model()->impl().lm, options.sampling, draft_mode(options.rule)),
      target, drafter, options);
}

// One lane's outputs on their way to text.
struct Sink {
  Sink(const Model::Impl& m, const GenerateOptions& o, const Listener* l)
      : model(m), options(o), listener(l), decoder(m.tokenizer), filter(o.stop) {}

  const Model::Impl& model;
  const GenerateOptions& options;
  const Listener* listener;  // null where texts of several lanes would mix
  StreamDecoder decoder;
  StopFilter filter;
  std::string text;
  bool ended = false;

  void emit(const std::string& piece) {
    text += piece;
    if (listener != nullptr && listener->on_text && !piece.empty()) listener->on_text(piece);
  }
  // True ends the lane.
  bool push(Token t) {
    if (!options.ignore_end && model.end_tokens.contains(t)) {
      ended = true;
      return true;
    }
    emit(filter.push(decoder.push(t)));
    return filter.stopped();
  }
  void finish() {
    emit(filter.push(decoder.flush()));
    emit(filter.flush());
  }
};

Finish finish_of(const TokenLane& lane, const Sink& sink) {
  if (sink.ended) return Finish::kEndToken;
  if (sink.filter.stopped()) return Finish::kStopString;
  return lane.done() ? Finish::kLength : Finish::kInterrupted;
}

Generated result_of(const TokenLane& lane, Sink& sink, RunStatistics statistics) {
  sink.finish();
  Generated out;
  out.text = sink.text;
  out.tokens.assign(lane.outputs().begin(), lane.outputs().end());
  out.statistics = std::move(statistics);
  out.seconds = out.statistics.seconds.total();
  out.finish = finish_of(lane, sink);
  out.rule = sink.options.rule;
  out.exact = sink.options.exact();
  out.seed = sink.options.seed;
  return out;
}

// Statistics lane by lane; a pass shared by several counts its seconds for each in equal parts.
class LaneStatistics {
 public:
  LaneStatistics(std::vector<RunStatistics>& stats, const TokenLane* first)
      : stats_(stats), first_(first) {}

  void operator()(const TextRound& round) {
    const auto n = static_cast<double>(round.lanes.size());
    const Timings share{.drafter = round.seconds.drafter / n,
                        .target = round.seconds.target / n,
                        .rest = round.seconds.rest / n};
    for (std::size_t i = 0; i < round.lanes.size(); ++i) {
      const auto lane = static_cast<std::size_t>(round.lanes[i] - first_);
      stats_[lane].add(round.outcomes.subspan(i, 1), share);
    }
  }

 private:
  std::vector<RunStatistics>& stats_;
  const TokenLane* first_;
};

}  // namespace

std::vector<Generated> run(const Model& target, const Drafter& drafter,
                           std::span<const std::vector<Token>> prompts,
                           const GenerateOptions& options, const Listener& listener,
                           const RoundObserver& observer, std::span<const std::uint32_t> requests) {
  check(target, drafter, prompts, options);
  const c10::InferenceMode no_autograd;
  const Model::Impl& model = target.impl();
  std::vector<std::unique_ptr<Sink>> sinks;
  std::vector<TokenLane> lanes;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Sink* sink = sinks
                     .emplace_back(std::make_unique<Sink>(
                         model, options, prompts.size() == 1 ? &listener : nullptr))
                     .get();
    const std::size_t budget =
        std::min<std::size_t>(options.max_tokens, target.context() - prompts[i].size());
    const std::uint32_t request =
        requests.empty() ? options.request + static_cast<std::uint32_t>(i) : requests[i];
    lanes.emplace_back(options.seed, request, prompts[i], budget,
                       [sink](Token t) { return sink->push(t); });
  }

  const bool drafts = options.max_draft > 0 && drafter.block() != nullptr;
  DecoderTarget verifier(
      model.lm, options.sampling,
      drafts ? drafter.block()->network->config().feature_layers : std::vector<std::int64_t>());
  AnyDrafter proposer = make_drafter(target, drafter, options);
  std::vector<RunStatistics> statistics(prompts.size());
  LaneStatistics count(statistics, lanes.data());
  RunStatistics whole;
  double prefilled = 0.0, learning = 0.0;
  const auto watch = [&](const TextRound& round) {
    whole(round);
    Timings usual = round.seconds;
    usual.target -= verifier.prefill_seconds() - prefilled;
    prefilled = verifier.prefill_seconds();
    const auto start = std::chrono::steady_clock::now();
    proposer.learn(round, usual);
    learning += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (observer) observer(round);
    if (listener.on_round) listener.on_round(whole);
  };
  const auto go_on = [&] { return !listener.go_on || listener.go_on(); };
  const std::size_t width = options.lanes > 0 ? options.lanes : lanes.size();
  speculate_some(std::span(lanes), width, verifier, proposer, TokenRule(options.rule), go_on, count,
                 watch);

  for (const TokenLane& lane : lanes) proposer.forget(lane.request());
  keep_learned(target, drafter, options, proposer);

  std::vector<Generated> out;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    out.push_back(result_of(lanes[i], *sinks[i], std::move(statistics[i])));
    if (proposer.control() != nullptr) out.back().draft_length = proposer.control()->report();
    // The first round's clock holds the prefill of all lanes; it is reported apart.
    const double prefill = verifier.prefill_seconds() / static_cast<double>(prompts.size());
    out.back().prefill_seconds = prefill;
    out.back().prefill_passes = verifier.prefill_passes();
    out.back().statistics.seconds.target -= prefill;
    out.back().seconds -= prefill;
    // Learning how far to draft is part of drafting.
    const double learned = learning / static_cast<double>(prompts.size());
    out.back().statistics.seconds.drafter += learned;
    out.back().seconds += learned;
  }
  return out;
}

Generated generate(const Model& target, const Drafter& drafter, std::span<const Token> prompt,
                   const GenerateOptions& options, const Listener& listener) {
  const std::vector<Token> one(prompt.begin(), prompt.end());
  return std::move(run(target, drafter, {&one, 1}, options, listener).front());
}

std::vector<Generated> generate_batch(const Model& target, const Drafter& drafter,
                                      std::span<const std::vector<Token>> prompts,
                                      const GenerateOptions& options, const Listener& listener) {
  return run(target, drafter, prompts, options, listener);
}

std::string_view name_of(Finish finish) noexcept {
  switch (finish) {
    case Finish::kLength:
      return "length";
    case Finish::kEndToken:
      return "end-token";
    case Finish::kStopString:
      return "stop-string";
    case Finish::kInterrupted:
      return "interrupted";
  }
  return "?";
}

void set_threads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
}

}  // namespace forerun
