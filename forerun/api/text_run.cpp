#include "forerun/api/text_run.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/learned.h"
#include "forerun/api/make_drafter.h"
#include "forerun/api/model_impl.h"

namespace forerun {
namespace {

Model checked(Model target, const Drafter& drafter, std::span<const std::vector<Token>> prompts,
              const GenerateOptions& options) {
  try {
    options.sampling.check();
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
  const bool finds =
      !drafter.has_laws() || (Access::block(drafter) && Access::block(drafter)->with_lookup);
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
  return target;
}

std::vector<std::int64_t> features_for(const Drafter& drafter, const GenerateOptions& options) {
  if (options.max_draft == 0 || Access::block(drafter) == nullptr) return {};
  return Access::block(drafter)->network->config().feature_layers;
}

}  // namespace

TextRun::TextRun(Model target, Drafter drafter, std::span<const std::vector<Token>> prompts,
                 GenerateOptions options, Listener listener, RoundObserver observer,
                 std::span<const std::uint32_t> requests)
    : model_(checked(std::move(target), drafter, prompts, options)),
      drafter_(std::move(drafter)),
      options_(std::move(options)),
      listener_(std::move(listener)),
      observer_(std::move(observer)),
      verifier_(impl_of(model_).lm, options_.sampling, features_for(drafter_, options_),
                listener_.go_on),
      proposer_(make_drafter(model_, drafter_, options_, listener_.go_on)),
      statistics_(prompts.size()) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    TextSink* sink = sinks_
                         .emplace_back(std::make_unique<TextSink>(
                             impl_of(model_), options_, prompts.size() == 1 ? &listener_ : nullptr))
                         .get();
    const std::size_t budget =
        std::min<std::size_t>(options_.max_tokens, model_.context() - prompts[i].size());
    const std::uint32_t request =
        requests.empty() ? options_.request + static_cast<std::uint32_t>(i) : requests[i];
    sequences_.emplace_back(options_.seed, request, prompts[i], budget,
                            [sink](Token t) { return sink->push(t); });
  }
}

bool TextRun::advance(std::size_t outputs) {
  const c10::InferenceMode no_autograd;
  const std::size_t from = whole_.outputs;
  bool stopped = false;
  const auto go_on = [&] {
    stopped = listener_.go_on && !listener_.go_on();
    return !stopped && whole_.outputs - from < outputs;
  };
  const auto observe = [this](const TextRound& round) {
    count(round);
    watch(round);
  };
  const std::size_t width = options_.batch_size > 0 ? options_.batch_size : sequences_.size();
  try {
    speculate_some(std::span(sequences_), width, verifier_, proposer_, TokenRule(options_.rule),
                   go_on, observe);
  } catch (const Interrupted&) {  // before any output of the round
    stopped = true;
  }
  return !stopped && std::any_of(sequences_.begin(), sequences_.end(),
                                 [](const TokenSequence& l) { return !l.done(); });
}

// Statistics sequence by sequence; a pass shared by several counts its seconds for each in equal
// parts.
void TextRun::count(const TextRound& round) {
  const auto n = static_cast<double>(round.sequences.size());
  const Timings share{.drafter = round.seconds.drafter / n,
                      .target = round.seconds.target / n,
                      .rest = round.seconds.rest / n};
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const auto sequence = static_cast<std::size_t>(round.sequences[i] - sequences_.data());
    statistics_[sequence].add(round.outcomes.subspan(i, 1), share);
  }
}

void TextRun::watch(const TextRound& round) {
  using Clock = std::chrono::steady_clock;
  whole_(round);
  Timings usual = round.seconds;
  usual.target -= verifier_.prefill_seconds() - prefilled_;
  prefilled_ = verifier_.prefill_seconds();
  const auto start = Clock::now();
  proposer_.learn(round, usual);
  learning_ += std::chrono::duration<double>(Clock::now() - start).count();
  if (observer_) observer_(round);
  if (listener_.on_round) listener_.on_round(whole_);
}

std::vector<Generated> TextRun::finish() {
  for (const TokenSequence& sequence : sequences_) proposer_.forget(sequence.request());
  keep_learned(model_, drafter_, options_, proposer_);
  std::vector<Generated> out;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    out.push_back(sinks_[i]->finish(sequences_[i], std::move(statistics_[i])));
    if (proposer_.control() != nullptr) out.back().draft_length = proposer_.control()->report();
    // The first round's clock holds the prefill of all sequences; it is reported apart.
    const double prefill = verifier_.prefill_seconds() / static_cast<double>(sequences_.size());
    out.back().prefill_seconds = prefill;
    out.back().prefill_passes = verifier_.prefill_passes();
    out.back().statistics.seconds.target -= prefill;
    out.back().seconds -= prefill;
    // Learning how far to draft is part of drafting.
    const double learned = learning_ / static_cast<double>(sequences_.size());
    out.back().statistics.seconds.drafter += learned;
    out.back().seconds += learned;
  }
  return out;
}

}  // namespace forerun
