#include "forerun/api/text_run.h"

#include <stdexcept>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/make_drafter.h"
#include "forerun/api/model_impl.h"
#include "forerun/core/draft_length.h"
#include "forerun/engine/round_trace.h"

namespace forerun {
TextRun::TextRun(Model target, Drafter drafter, std::span<const std::vector<Token>> prompts,
                 GenerateOptions options, Listener listener, const RoundObserver& observer,
                 std::span<const std::uint32_t> requests)
    : model_(std::move(target)),
      options_(std::move(options)),
      listener_(std::move(listener)),
      keeps_law_(drafter.keeps_law()),
      drafter_(make_drafter(model_, drafter, options_)),
      runner_(text_model(model_), {.max_active = options_.batch_size}),
      results_(prompts.size()) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    TextRequest request = text_request(prompts[i], options_);
    request.request =
        requests.empty() ? options_.request + static_cast<std::uint32_t>(i) : requests[i];
    request.drafter = drafter_;
    request.observer = [this, observer, i](const TextRound& round, std::size_t index) {
      if (i == 0 && options_.trace) trace_.rounds.push_back(trace_of(round, index));
      if (index == 0) whole_.add(round.outcomes, round.seconds);
      if (observer) observer(round, index);
    };
    submit(runner_, i, std::move(request));
  }
}

bool TextRun::advance(std::size_t outputs) {
  const std::size_t from = whole_.outputs;
  std::vector<Event> events;
  while (runner_.busy() && whole_.outputs - from < outputs) {
    if (listener_.go_on && !listener_.go_on()) return false;
    const std::uint64_t passes = whole_.passes;
    runner_.step(events);
    take(events);
    if (listener_.on_round && whole_.passes > passes) listener_.on_round(whole_);
  }
  return runner_.busy();
}

void TextRun::take(std::vector<Event>& events) {
  for (Event& event : events) {
    if (const auto* piece = std::get_if<TextPiece>(&event)) {
      // Texts of several sequences would mix.
      if (results_.size() == 1 && listener_.on_text) listener_.on_text(piece->text);
    } else if (auto* finished = std::get_if<TextFinished>(&event)) {
      static_cast<TextResult&>(results_[finished->id]) = std::move(finished->result);
    } else if (const auto* failed = std::get_if<Failed>(&event)) {
      throw std::runtime_error(failed->message);
    }
  }
  events.clear();
}

std::vector<Generated> TextRun::finish() {
  std::vector<Event> events;
  for (RequestId id = 0; id < results_.size(); ++id) runner_.cancel(id, events);
  take(events);
  for (Generated& text : results_) {
    text.rule = options_.rule;
    text.exact = options_.exact() && keeps_law_;
    text.seed = options_.seed;
    if (drafter_ && drafter_->control() != nullptr) {
      text.draft_length = drafter_->control()->report();
    }
  }
  if (options_.trace) results_.front().trace = std::move(trace_);
  drafter_.reset();  // keeps what it has learned
  return std::move(results_);
}

}  // namespace forerun
