#include "forerun/engine/text_runner.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Rows of prompts in a pass: bounds the attention scores of long prompts.
constexpr std::int64_t kPieceRows = 512;
// Beside running texts: a piece may make a round this much longer, in usual rounds.
constexpr double kPieceRounds = 1.0;
constexpr std::int64_t kFirstPiece = 32, kLeastPiece = 16;
// Positions that a new text gets room for beside its prompt.
constexpr std::int64_t kAhead = 64;

double mean(double old, double now) { return old == 0.0 ? now : 0.75 * old + 0.25 * now; }

double log_sum_exp(std::span<const float> x, double most) {
  double sum = 0.0;
  for (const float v : x) sum += std::exp(static_cast<double>(v) - most);
  return most + std::log(sum);
}

TokenOutput token_output(RequestId id, Token token, std::span<const float> logits,
                         std::size_t count) {
  const double all = log_sum_exp(logits, *std::max_element(logits.begin(), logits.end()));
  const auto log_probability = [&](Token t) {
    return static_cast<double>(logits[static_cast<std::size_t>(t)]) - all;
  };
  TokenOutput out{.id = id, .token = token, .log_probability = log_probability(token), .top = {}};
  std::vector<Token> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Token>(i);
  const auto n = static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](Token a, Token b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    out.top.emplace_back(order[static_cast<std::size_t>(i)],
                         log_probability(order[static_cast<std::size_t>(i)]));
  }
  return out;
}

void check(const TextModel& model, const TextRequest& request) {
  request.settings.sampling.check();
  const auto context = static_cast<std::size_t>(model.lm.config.context);
  if (request.prompt.empty()) {
    throw std::invalid_argument("the prompt holds no token: give some text, or drop --raw");
  }
  if (request.prompt.size() >= context) {
    throw std::invalid_argument(
        fmt::format("the prompt has {} tokens, the model's context holds {}: shorten the prompt",
                    request.prompt.size(), context));
  }
  for (const Token t : request.prompt) {
    if (t >= 0 && t < model.lm.config.vocab) continue;
    throw std::invalid_argument(
        fmt::format("token {} lies outside the model's vocabulary of {}: was the text encoded with "
                    "this model's tokenizer?",
                    t, model.lm.config.vocab));
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
  std::vector<Group> groups = this->groups();
  draft(groups, events);
  TextPass pass;
  for (Group& group : groups) {
    for (std::size_t i = 0; i < group.texts.size(); ++i) {
      pass.verify(*group.texts[i], group.drafts[i]);
    }
  }
  plan_pieces(pass, groups.empty());
  make_room(pass, groups, events);
  if (pass.rows() == 0) return;
  pass.run(model_.lm);
  for (const TextPass::Piece& piece : pass.pieces()) {
    piece.text->prefill_seconds += piece.seconds;
    ++piece.text->prefill_passes;
    if (piece.text->request.drafter && !piece.text->request.drafter->features().empty()) {
      piece.text->request.drafter->read(piece.text->sequence, pass.states(*piece.text));
    }
  }
  for (Group& group : groups) resolve(group, pass, events);
  learn_pieces(pass, since(start));
}

// Texts whose prompt is read, by drafter, in the order of their first text.
std::vector<TextRunner::Group> TextRunner::groups() {
  std::vector<Group> out;
  for (const auto& text : active_) {
    if (text->unread() > 0) continue;
    TextDrafter* drafter = text->request.drafter.get();
    auto group =
        std::find_if(out.begin(), out.end(), [&](const Group& g) { return g.drafter == drafter; });
    if (group == out.end()) group = out.insert(out.end(), Group{.drafter = drafter});
    group->texts.push_back(text.get());
    group->sequences.push_back(&text->sequence);
  }
  return out;
}

void TextRunner::draft(std::vector<Group>& groups, std::vector<Event>& events) {
  std::size_t rows = 0;  // of the pass so far: a row a text, and the drafts that are known
  for (const Group& group : groups) rows += group.texts.size();
  for (Group& group : groups) {
    if (group.drafter == nullptr) {
      group.drafts.resize(group.texts.size());
      continue;
    }
    const auto start = Clock::now();
    try {
      group.drafts = group.drafter->propose(group.sequences, rows - group.texts.size());
    } catch (const std::exception& e) {
      for (Text* text : group.texts)
        fail(*text, fmt::format("drafting failed: {}", e.what()), events);
      group.texts.clear();
      group.sequences.clear();
      continue;
    }
    for (const TokenDraft& draft : group.drafts) rows += draft.size();
    group.seconds.drafter = since(start);
  }
  std::erase_if(groups, [](const Group& g) { return g.texts.empty(); });
}

// The prompt that arrived first is read first.
void TextRunner::plan_pieces(TextPass& pass, bool alone) {
  std::int64_t rows = kPieceRows;
  if (!alone) {
    rows = kFirstPiece;
    if (round_seconds_ > 0.0 && piece_row_seconds_ > 0.0) {
      rows =
          std::clamp(static_cast<std::int64_t>(kPieceRounds * round_seconds_ / piece_row_seconds_),
                     kLeastPiece, kPieceRows);
    }
  }
  for (const auto& text : active_) {
    const std::int64_t piece = std::min(rows, text->unread());
    if (piece <= 0) continue;
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
    round_seconds_ = mean(round_seconds_, seconds);
  } else if (round_seconds_ > 0.0) {
    const double more = std::max(seconds - round_seconds_, 0.1 * seconds);
    piece_row_seconds_ = mean(piece_row_seconds_, more / static_cast<double>(rows));
  }
}

// Ends of texts make room first, then the newest texts wait.
void TextRunner::make_room(TextPass& pass, std::vector<Group>& groups, std::vector<Event>& events) {
  while (pass.bytes() > pool_->available()) {
    if (prefixes_.evict()) continue;
    Text& newest = *active_.back();
    pass.drop(newest);
    for (Group& group : groups) {
      const auto at = std::find(group.texts.begin(), group.texts.end(), &newest);
      if (at == group.texts.end()) continue;
      const auto i = at - group.texts.begin();
      group.texts.erase(at);
      group.sequences.erase(group.sequences.begin() + i);
      group.drafts.erase(group.drafts.begin() + i);
    }
    if (active_.size() == 1) {
      fail(newest,
           fmt::format("the text needs more keys and values than the limit of {} MiB holds: raise "
                       "it, or ask for fewer tokens",
                       pool_->limit() >> 20),
           events);
      return;
    }
    pause(newest, events);
  }
}

void TextRunner::pause(Text& text, std::vector<Event>& events) {
  if (text.request.drafter) text.request.drafter->forget(text.id);
  text.cache.reset();
  text.waits = true;
  events.emplace_back(Waiting{text.id, "no memory for keys and values is free"});
  const auto at =
      std::find_if(active_.begin(), active_.end(), [&](const auto& t) { return t.get() == &text; });
  waiting_.push_front(std::move(*at));
  active_.erase(at);
}

void TextRunner::admit(std::vector<Event>& events) {
  while (!waiting_.empty()) {
    Text& text = *waiting_.front();
    if (options_.max_active > 0 && active_.size() >= options_.max_active) return;
    begin(text);
    if (!fits(text, events)) return;
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    text.waits = false;
    if (text.sequence.done()) finish(text, events);  // no output was wanted
  }
}

bool TextRunner::fits(Text& text, std::vector<Event>& events) {
  const std::int64_t room =
      std::min(text.unread() + kAhead, model_.lm.config.context - text.cache->length());
  while (text.cache->bytes_to_reserve(room) > pool_->available()) {
    if (prefixes_.evict()) continue;
    if (text.request.drafter) text.request.drafter->forget(text.id);
    text.cache.reset();
    if (active_.empty()) {
      std::unique_ptr<Text> gone = std::move(waiting_.front());
      waiting_.pop_front();
      events.emplace_back(Failed{
          text.id, fmt::format("the prompt of {} tokens needs more keys and values than the limit "
                               "of {} MiB holds: raise it, or shorten the prompt",
                               text.request.prompt.size(), pool_->limit() >> 20)});
      return false;
    }
    if (!text.waits) {
      text.waits = true;
      events.emplace_back(Waiting{text.id, "no memory for keys and values is free"});
    }
    return false;
  }
  return true;
}

// Takes over the keys and values of the longest known beginning.
void TextRunner::begin(Text& text) {
  text.cache.emplace(model_.lm.make_cache(pool_));
  if (!options_.keep_prefixes) return;
  const auto tokens = text.sequence.tokens();
  TextDrafter* drafter = text.request.drafter.get();
  // A drafter that reads hidden states needs those of one position at least.
  const bool reads = drafter != nullptr && !drafter->features().empty();
  const std::size_t most = tokens.size() - std::min<std::size_t>(tokens.size(), reads ? 2 : 1);
  const KvCache* best = nullptr;
  SequenceId from = 0;
  std::size_t length = 0;
  bool knows = false;
  const auto offer = [&](std::span<const Token> other, const KvCache& cache, SequenceId id,
                         const TextDrafter* of) {
    const std::size_t n =
        std::min({most, common_prefix(other, tokens), static_cast<std::size_t>(cache.length())});
    if (n <= length || (reads && of != drafter)) return;
    best = &cache;
    from = id;
    length = n;
    knows = of == drafter;
  };
  if (const PrefixCache::Entry* entry = prefixes_.longest(tokens.first(most))) {
    offer(entry->tokens, entry->cache, entry->id, entry->drafter.get());
  }
  for (const auto& other : active_) {
    offer(other->sequence.tokens(), *other->cache, other->id, other->request.drafter.get());
  }
  if (best == nullptr) return;
  const auto positions = static_cast<std::int64_t>(length);
  if (knows && drafter != nullptr && !drafter->share(from, text.id, positions)) return;
  text.cache.emplace(best->share(positions));
  text.shared = length;
}

void TextRunner::resolve(Group& group, const TextPass& pass, std::vector<Event>& events) {
  if (group.texts.empty()) return;
  const auto start = Clock::now();
  const std::size_t n = group.texts.size();
  std::vector<VerifiedRows> rows;
  for (const Text* text : group.texts) rows.push_back(pass.verified(*text));
  const VerifiedTokens verified(pass.logits(), std::move(rows));
  group.errors.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    try {
      group.outcomes.push_back(forerun::resolve(group.texts[i]->sequence, i, verified,
                                                group.drafts[i],
                                                TokenRule(group.texts[i]->sequence.rule())));
    } catch (const std::exception& e) {
      group.outcomes.push_back({});
      group.errors[i] = e.what();
    }
  }
  group.seconds.target = pass.seconds() - pass.reading_seconds();
  group.seconds.rest = since(start);
  std::size_t drafted = 0;
  for (std::size_t i = 0; i < n; ++i) {
    drafted += group.drafts[i].size();
    // The newest output was not part of the pass: its keys and values come with the next one.
    Text& text = *group.texts[i];
    text.cache->truncate(static_cast<std::int64_t>(text.sequence.tokens().size()) - 1);
  }
  const TextRound round{group.sequences, group.drafts, verified, group.outcomes, group.seconds};
  const auto observing = Clock::now();
  const std::size_t others = static_cast<std::size_t>(pass.rows()) - n - drafted;
  if (group.drafter != nullptr) group.drafter->observe(round);
  group.seconds.drafter += since(observing);
  const auto learning = Clock::now();
  if (group.drafter != nullptr) {
    Timings seen = group.seconds;
    seen.target = pass.seconds();
    group.drafter->learn(round, seen, others);
  }
  const auto texts = static_cast<double>(n);
  const double learned = since(learning) / texts;
  for (std::size_t i = 0; i < n; ++i) {
    Text& text = *group.texts[i];
    text.learning_seconds += learned;
    const Timings share{.drafter = group.seconds.drafter / texts,
                        .target = group.seconds.target / texts,
                        .rest = group.seconds.rest / texts};
    text.statistics.add({&group.outcomes[i], 1}, share);
    if (text.request.observer) {
      text.request.observer(
          {group.sequences, group.drafts, verified, group.outcomes, group.seconds}, i);
    }
    report(group, i, verified, events);
  }
}

void TextRunner::report(Group& group, std::size_t index, const VerifiedTokens& verified,
                        std::vector<Event>& events) {
  Text& text = *group.texts[index];
  if (!group.errors[index].empty()) return fail(text, group.errors[index], events);
  if (const auto count = text.request.log_probabilities) {
    const auto outputs = text.sequence.outputs().last(group.outcomes[index].emitted);
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      events.emplace_back(token_output(text.id, outputs[j], verified.raw(index, j), *count));
    }
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
  if (options_.keep_prefixes && text.cache && text.cache->length() > 0) {
    const auto kept = text.sequence.tokens().first(static_cast<std::size_t>(text.cache->length()));
    prefixes_.add({.id = text.id,
                   .tokens = {kept.begin(), kept.end()},
                   .cache = *std::move(text.cache),
                   .drafter = text.request.drafter});
  } else if (text.request.drafter) {
    text.request.drafter->forget(text.id);
  }
  remove(text);
}

void TextRunner::fail(Text& text, const std::string& message, std::vector<Event>& events) {
  if (text.request.drafter) text.request.drafter->forget(text.id);
  events.emplace_back(Failed{text.id, message});
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
