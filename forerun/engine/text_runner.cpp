#include "forerun/engine/text_runner.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "forerun/core/rng_key.h"
#include "forerun/engine/round_trace.h"
#include "forerun/engine/token_output.h"

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Beside running texts: a round with a piece of a prompt is to take this many usual rounds.
constexpr double kPieceRounds = 2.7;
constexpr double kLeastPiece = 4.0;  // rows

// Near the lower tenth of what was seen: other work on the machine makes times longer, not shorter.
double steady(double old, double now) {
  return old == 0.0 ? now : old + (now < old ? 0.2 : 0.02) * (now - old);
}

void check(const TextModel& model, const TextRequest& request) {
  request.settings.sampling.check();
  request.settings.changes.check(static_cast<std::size_t>(model.lm.config.vocab));
  if (request.settings.changes.grammar && request.ignore_end) {
    throw std::invalid_argument(
        "a grammar ends with an end-of-sequence token: it cannot be kept where these are ignored");
  }
  const auto context = static_cast<std::size_t>(model.lm.config.context);
  if (request.prompt.empty()) {
    throw std::invalid_argument("the prompt holds no token: give some text");
  }
  if (request.prompt.size() >= context) {
    throw std::invalid_argument(
        fmt::format("the prompt has {} tokens, the model's context holds {}: shorten the prompt",
                    request.prompt.size(), context));
  }
  check_tokens(model.lm, request.prompt);
  if (!request.drafter) return;
  const auto features = request.drafter->features();
  const auto width = static_cast<std::int64_t>(features.size()) * model.lm.config.hidden;
  const bool there = std::all_of(features.begin(), features.end(), [&](std::int64_t block) {
    return block >= 0 && block < model.lm.config.layers;
  });
  if (width != request.drafter->state_width() || !there) {
    throw std::invalid_argument(
        "the drafter reads hidden states of another target: load it for this model");
  }
}

}  // namespace

TextRunner::TextRunner(const TextModel& model, const TextRunnerOptions& options)
    : model_(model),
      options_(options),
      pool_(options.kv_bytes > 0 ? std::make_shared<KvPool>(options.kv_bytes)
                                 : std::make_shared<KvPool>()) {}

TextRunner::~TextRunner() {
  for (const auto& text : active_) {
    if (text->request.drafter) text->request.drafter->forget(text->id);
  }
}

void TextRunner::submit(RequestId id, TextRequest request) {
  check(model_, request);
  const auto context = static_cast<std::size_t>(model_.lm.config.context);
  const std::size_t budget = std::min(request.max_tokens, context - request.prompt.size());
  waiting_.push_back(std::make_unique<Text>(model_, std::move(request), id, budget));
}

void TextRunner::step(std::vector<Event>& events) {
  const c10::InferenceMode no_autograd;
  admit(events);
  if (active_.empty()) return;
  const auto start = Clock::now();
  take_beginnings();
  std::vector<Group> groups = this->groups();
  TextPass pass;
  plan_pieces(pass, groups.empty());
  draft(groups, static_cast<std::size_t>(pass.rows()), events);
  std::size_t texts = 0;
  for (Group& group : groups) {
    for (std::size_t i = 0; i < group.texts.size(); ++i) {
      pass.verify(*group.texts[i], group.drafts[i], group.companions[i]);
    }
  }
  make_room(pass, groups, events);
  if (pass.rows() == 0 || !run(pass, events)) return;
  for (const Group& group : groups) texts += group.texts.size();
  for (Group& group : groups) resolve(group, pass, texts, events);
  learn_pieces(pass, since(start));
}

// False: the pass failed, and with it every text in it.
bool TextRunner::run(TextPass& pass, std::vector<Event>& events) {
  try {
    pass.run(model_.lm);
  } catch (const std::exception& e) {
    for (Text* text : pass.texts()) {
      fail(*text, fmt::format("the target's pass failed: {}", e.what()), events);
    }
    return false;
  }
  for (const TextPass::Piece& piece : pass.pieces()) {
    Text& text = *piece.text;
    text.prefill_seconds += piece.seconds;
    ++text.prefill_passes;
    TextDrafter* drafter = text.request.drafter.get();
    if (drafter == nullptr || drafter->features().empty()) continue;
    try {
      drafter->read(text.sequence, pass.states(text));
    } catch (const std::exception& e) {
      fail(text, fmt::format("drafting failed: {}", e.what()), events);
    }
  }
  return true;
}

// Texts whose prompt is read, by drafter, in the order of their first text.
std::vector<TextRunner::Group> TextRunner::groups() {
  std::vector<Group> out;
  for (const auto& text : active_) {
    // Of a round that failed after its pass: the newest token is always still to be read.
    const auto known = static_cast<std::int64_t>(text->sequence.tokens().size()) - 1;
    text->cache->truncate(known);
    text->cache->hold(known);
    if (text->unread() > 0) continue;
    if (!text->prompt_read && options_.max_prefixes > 0) text->cache->remember();
    text->prompt_read = true;
    TextDrafter* drafter = text->request.drafter.get();
    auto group =
        std::find_if(out.begin(), out.end(), [&](const Group& g) { return g.drafter == drafter; });
    if (group == out.end()) group = out.insert(out.end(), Group{.drafter = drafter});
    group->texts.push_back(text.get());
    group->sequences.push_back(&text->sequence);
  }
  return out;
}

// @param rows  of the pass so far
void TextRunner::draft(std::vector<Group>& groups, std::size_t rows, std::vector<Event>& events) {
  for (const Group& group : groups) rows += group.texts.size();
  for (Group& group : groups) {
    if (group.drafter == nullptr) {
      group.drafts.resize(group.texts.size());
      group.companions.resize(group.texts.size());
      continue;
    }
    const auto start = Clock::now();
    try {
      group.drafts = group.drafter->propose(group.sequences, rows - group.texts.size());
    } catch (const std::exception& e) {
      for (Text* text : group.texts)
        fail(*text, fmt::format("drafting failed: {}", e.what()), events);
      group.texts.clear();
      continue;
    }
    group.seconds.drafter = since(start);
    take_companions(group);
    check_drafts(group, events);
    for (const TokenDraft& draft : group.drafts) rows += draft.size();
    for (const CompanionRows& companions : group.companions) rows += companions.rows();
  }
  std::erase_if(groups, [](const Group& g) { return g.texts.empty(); });
}

// Those that would lie beyond the model's context are left out.
void TextRunner::take_companions(Group& group) const {
  const auto proposed = group.drafter->companions();
  group.companions.assign(proposed.begin(), proposed.end());
  group.companions.resize(group.texts.size());
  for (std::size_t i = 0; i < group.texts.size(); ++i) {
    const std::size_t read = group.sequences[i]->tokens().size();
    if (group.companions[i].empty()) continue;
    if (read + group.companions[i].depths(group.drafts[i]) >
        static_cast<std::size_t>(model_.lm.config.context)) {
      group.companions[i] = {};
    }
  }
}

// A draft of tokens that the model lacks ends its text alone.
void TextRunner::check_drafts(Group& group, std::vector<Event>& events) {
  for (std::size_t i = group.texts.size(); i-- > 0;) {
    try {
      check_tokens(model_.lm, group.drafts[i].tokens);
      check_tokens(model_.lm, group.companions[i].tokens);
      continue;
    } catch (const std::invalid_argument& e) {
      fail(*group.texts[i], fmt::format("drafting failed: {}", e.what()), events);
    }
    group.erase(i);
  }
}

// The prompt that arrived first is read first.
void TextRunner::plan_pieces(TextPass& pass, bool alone) {
  const std::int64_t most = prefill_rows(model_.lm);
  std::int64_t rows = alone ? most : std::min(most, static_cast<std::int64_t>(piece_rows_));
  for (const auto& text : active_) {
    if (text->awaited.positions > 0) continue;
    std::int64_t piece = std::min(rows, text->unread());
    if (piece <= 0) continue;
    const std::int64_t left = text->split - text->cache->length();
    if (left > 0) piece = std::min(piece, left);
    if (options_.max_prefixes > 0) text->cache->remember();
    pass.read(*text, piece);
    rows -= piece;
    if (rows <= 0) return;
  }
}

void TextRunner::learn_pieces(const TextPass& pass, double seconds) {
  std::int64_t rows = 0;
  for (const TextPass::Piece& piece : pass.pieces()) rows += piece.rows;
  if (rows == pass.rows()) return;
  if (rows == 0) {
    round_seconds_ = steady(round_seconds_, seconds);
  } else if (round_seconds_ > 0.0 && rows >= static_cast<std::int64_t>(piece_rows_)) {
    // Towards the wanted time; the end of a prompt, which is shorter, tells nothing.
    const double wanted = kPieceRounds * round_seconds_ / seconds;
    piece_rows_ = std::clamp(piece_rows_ * (1.0 + 0.2 * (std::min(wanted, 2.0) - 1.0)), kLeastPiece,
                             static_cast<double>(prefill_rows(model_.lm)));
  }
}

// @param texts  that the pass verified, of all groups
void TextRunner::resolve(Group& group, TextPass& pass, std::size_t texts,
                         std::vector<Event>& events) {
  if (group.texts.empty()) return;
  const auto start = Clock::now();
  const std::size_t n = group.texts.size();
  std::vector<VerifiedRows> rows;
  for (std::size_t i = 0; i < n; ++i) {
    rows.push_back(pass.verified(*group.texts[i], group.drafts[i]));
  }
  const VerifiedTokens verified(pass.logits(), std::move(rows));
  group.errors.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    Text& text = *group.texts[i];
    try {
      group.outcomes.push_back(forerun::resolve(text.sequence, i, verified, group.drafts[i],
                                                TokenRule(text.sequence.rule())));
    } catch (const std::exception& e) {
      group.outcomes.push_back({});
      group.errors[i] = {e.what(), dynamic_cast<const NoTokenAllowed*>(&e) != nullptr};
    }
    pass.keep(text, group.outcomes.back());
  }
  group.seconds.target = (pass.seconds() - pass.reading_seconds()) * static_cast<double>(n) /
                         static_cast<double>(texts);
  group.seconds.rest = since(start);
  const TextRound round{group.sequences, group.drafts, verified, group.outcomes, group.seconds};
  try {
    if (group.drafter != nullptr) learn(group, round, pass);
  } catch (const std::exception& e) {
    for (auto& error : group.errors) error = {fmt::format("drafting failed: {}", e.what())};
  }
  const auto each = static_cast<double>(n);
  const Timings share{.drafter = group.seconds.drafter / each,
                      .target = group.seconds.target / each,
                      .rest = group.seconds.rest / each};
  for (std::size_t i = 0; i < n; ++i) {
    Text& text = *group.texts[i];
    text.statistics.add({&group.outcomes[i], 1}, share);
    if (text.request.observer) {
      text.request.observer(
          {group.sequences, group.drafts, verified, group.outcomes, group.seconds}, i);
    }
  }
  const TextRound seen{group.sequences, group.drafts, verified, group.outcomes, share};
  for (std::size_t i = 0; i < n; ++i) report(group, i, seen, events);
}

// Hands the round to its drafter. A pass that also read prompts does not tell what its drafts cost.
void TextRunner::learn(Group& group, const TextRound& round, const TextPass& pass) {
  const auto observing = Clock::now();
  group.drafter->observe(round);
  group.seconds.drafter += since(observing);
  const auto learning = Clock::now();
  std::size_t rows = group.texts.size();
  for (std::size_t i = 0; i < group.texts.size(); ++i) {
    rows += group.drafts[i].size() + round.verified.companion_rows(i);
  }
  Timings seen = group.seconds;
  seen.target = pass.reading_seconds() > 0.0 ? 0.0 : pass.seconds();
  if (group.dropped) seen.drafter = 0.0;
  group.drafter->learn(round, seen, static_cast<std::size_t>(pass.rows()) - rows);
  const double learned = since(learning) / static_cast<double>(group.texts.size());
  for (Text* text : group.texts) text->learning_seconds += learned;
}

void TextRunner::report(Group& group, std::size_t index, const TextRound& round,
                        std::vector<Event>& events) {
  Text& text = *group.texts[index];
  if (const auto& error = group.errors[index]; !error.message.empty()) {
    return fail(text, error.message, events, error.by_request);
  }
  if (const auto count = text.request.log_probabilities) {
    const auto outputs = text.sequence.outputs().last(group.outcomes[index].emitted);
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      events.emplace_back(
          token_output(text.id, outputs[j],
                       round.verified.raw(index, group.outcomes[index].decided_by(j)), *count));
    }
  }
  std::vector<std::size_t> bytes = text.stream.take_bytes();
  if (text.request.report_rounds) {
    events.emplace_back(RoundReport{text.id, trace_of(round, index), std::move(bytes)});
  }
  if (text.sequence.done()) return finish(text, events);
  if (std::string piece = text.stream.take(); !piece.empty()) {
    events.emplace_back(TextPiece{text.id, std::move(piece)});
  }
}

void TextRunner::finish(Text& text, std::vector<Event>& events) {
  TextResult result;
  result.finish = text.stream.finish(text.sequence.done());
  if (std::string piece = text.stream.take(); !piece.empty()) {
    events.emplace_back(TextPiece{text.id, std::move(piece)});
  }
  result.text = text.stream.text();
  result.tokens.assign(text.sequence.outputs().begin(), text.sequence.outputs().end());
  result.statistics = std::move(text.statistics);
  result.statistics.seconds.drafter += text.learning_seconds;  // part of drafting
  result.seconds = result.statistics.seconds.total();
  result.prefill_seconds = text.prefill_seconds;
  result.prefill_passes = text.prefill_passes;
  result.shared_tokens = text.shared;
  events.emplace_back(TextFinished{text.id, std::move(result)});
  const std::shared_ptr<TextDrafter>& drafter = text.request.drafter;
  const bool keeps = options_.max_prefixes > 0 && text.cache && text.cache->length() > 0;
  const bool reads = drafter && drafter->reads_whole_text();
  if (drafter && !(keeps && reads)) drafter->forget(text.id);
  if (keeps) {
    const auto kept = text.sequence.tokens().first(static_cast<std::size_t>(text.cache->length()));
    prefixes_.add({.id = text.id,
                   .tokens = {kept.begin(), kept.end()},
                   .cache = *std::move(text.cache),
                   .drafter = reads ? drafter : nullptr});
    while (prefixes_.size() > options_.max_prefixes) prefixes_.evict();
  }
  remove(text);
}

void TextRunner::fail(Text& text, const std::string& message, std::vector<Event>& events,
                      bool by_request) {
  if (text.request.drafter) text.request.drafter->forget(text.id);
  events.emplace_back(Failed{text.id, message, by_request});
  remove(text);
}

void TextRunner::remove(const Text& text) {
  std::erase_if(active_, [&](const auto& t) { return t.get() == &text; });
}

bool TextRunner::cancel(RequestId id, std::vector<Event>& events) {
  const auto is = [&](const auto& text) { return text->id == id; };
  if (const auto at = std::find_if(active_.begin(), active_.end(), is); at != active_.end()) {
    finish(**at, events);
    return true;
  }
  const auto at = std::find_if(waiting_.begin(), waiting_.end(), is);
  if (at == waiting_.end()) return false;
  const std::unique_ptr<Text> text = std::move(*at);
  waiting_.erase(at);
  finish(*text, events);
  return true;
}

}  // namespace forerun
