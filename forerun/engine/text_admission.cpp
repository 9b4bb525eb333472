// Which texts run, with whose keys and values they begin, and who waits if memory is full.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "forerun/engine/text_runner.h"

namespace forerun {
namespace {

// Positions that a new text gets room for beside its prompt.
constexpr std::int64_t kAhead = 64;

bool reads_states(const Text& text) {
  return text.request.drafter && !text.request.drafter->features().empty();
}

bool reads_whole_text(const Text& text) {
  return text.request.drafter && text.request.drafter->reads_whole_text();
}

// Positions that a text can take over: its newest token is always read, and a drafter that reads
// hidden states needs those of one position at least.
std::size_t most_shared(const Text& text) {
  const std::size_t tokens = text.sequence.tokens().size();
  return tokens - std::min<std::size_t>(tokens, reads_states(text) ? 2 : 1);
}

// Where other texts differ from this one: the nearest such place ahead of it.
void keep_split(Text& text, std::int64_t position) {
  const std::int64_t length = text.cache->length();
  if (position > length && (text.split <= length || position < text.split)) text.split = position;
}

}  // namespace

// Ends of texts make room first, then rows that drafters added go, then the newest texts wait.
void TextRunner::make_room(TextPass& pass, std::vector<Group>& groups, std::vector<Event>& events) {
  while (pass.bytes() > pool_->available()) {
    if (prefixes_.evict() || pass.drop_companions()) continue;
    Text& newest = *active_.back();
    pass.drop(newest);
    bool drafted = false;
    for (Group& group : groups) {
      const auto at = std::find(group.texts.begin(), group.texts.end(), &newest);
      if (at == group.texts.end()) continue;
      const auto i = static_cast<std::size_t>(at - group.texts.begin());
      group.dropped = true;
      drafted = active_.size() == 1 && group.drafts[i].size() > 0;
      if (drafted) {  // alone: it may do without a draft
        group.drafts[i] = {};
        pass.verify(newest, group.drafts[i]);
      } else {
        group.erase(i);
      }
    }
    if (drafted) continue;
    if (active_.size() == 1) {
      fail(newest,
           fmt::format("the text needs more keys and values than the limit of {} MiB holds: raise "
                       "it, or ask for fewer tokens",
                       pool_->limit() >> 20),
           events, true);
      return;
    }
    pause(newest, events);
  }
}

// Gives back what the text holds; it begins again when there is memory.
void TextRunner::wait(Text& text, std::vector<Event>& events) {
  if (text.request.drafter) text.request.drafter->forget(text.id);
  text.cache.reset();
  if (text.waits) return;
  text.waits = true;
  events.emplace_back(Waiting{text.id, "no memory for keys and values is free"});
}

void TextRunner::pause(Text& text, std::vector<Event>& events) {
  wait(text, events);
  const auto at =
      std::find_if(active_.begin(), active_.end(), [&](const auto& t) { return t.get() == &text; });
  waiting_.push_front(std::move(*at));
  active_.erase(at);
}

void TextRunner::admit(std::vector<Event>& events) {
  while (!waiting_.empty()) {
    Text& text = *waiting_.front();
    if (text.sequence.done()) {  // no output was wanted
      const std::unique_ptr<Text> gone = std::move(waiting_.front());
      waiting_.pop_front();
      finish(text, events);
      continue;
    }
    if (options_.max_active > 0 && active_.size() >= options_.max_active) return;
    begin(text);
    if (!fits(text, events)) return;
    text.awaited = awaited_by(text);
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    text.waits = false;
  }
}

bool TextRunner::fits(Text& text, std::vector<Event>& events) {
  const auto needs = [&](const Text& t) {
    const auto ahead =
        std::min<std::int64_t>(kAhead, static_cast<std::int64_t>(t.sequence.remaining()));
    return t.cache->bytes_to_reserve(
        std::min(t.unread() + ahead, model_.lm.config.context - t.cache->length()));
  };
  std::size_t needed = needs(text);
  for (const auto& other : active_) needed += needs(*other);
  while (needed > pool_->available()) {
    if (prefixes_.evict()) continue;
    if (active_.empty()) {
      const std::unique_ptr<Text> gone = std::move(waiting_.front());
      waiting_.pop_front();
      if (text.request.drafter) text.request.drafter->forget(text.id);
      events.emplace_back(Failed{
          text.id,
          fmt::format("the prompt of {} tokens needs more keys and values than the limit of {} MiB "
                      "holds: raise it, or shorten the prompt",
                      text.request.prompt.size(), pool_->limit() >> 20),
          true});
      return false;
    }
    wait(text, events);
    return false;
  }
  return true;
}

TextRunner::Beginning TextRunner::beginning_of(const Text& text) {
  const auto tokens = text.sequence.tokens();
  const TextDrafter* drafter = text.request.drafter.get();
  const bool reads = reads_whole_text(text);
  const std::size_t most = most_shared(text);
  Beginning best;
  const auto offer = [&](std::span<const Token> other, const KvCache& cache, SequenceId id,
                         const TextDrafter* of) {
    const auto n = static_cast<std::size_t>(
        cache.sharable(static_cast<std::int64_t>(std::min(most, common_prefix(other, tokens)))));
    if (n <= best.length || (reads && of != drafter)) return;
    best = {&cache, id, n, of == drafter};
  };
  if (const auto* entry = prefixes_.longest(tokens.first(most), reads ? drafter : nullptr)) {
    offer(entry->tokens, entry->cache, entry->id, entry->drafter.get());
  }
  for (const auto& other : active_) {
    offer(other->sequence.tokens(), *other->cache, other->id, other->request.drafter.get());
  }
  return best;
}

// An earlier text that begins with more whole pages of this one than are known yet. Prompts are
// read in the order of arrival, so these pages are there before this text could read them itself.
Text::Awaited TextRunner::awaited_by(const Text& text) const {
  Text::Awaited best;
  if (options_.max_prefixes == 0) return best;
  auto known = text.cache->length();
  for (const auto& other : active_) {
    if (other.get() == &text) break;
    if (reads_whole_text(text) && other->request.drafter != text.request.drafter) continue;
    const auto alike = static_cast<std::int64_t>(std::min(
        most_shared(text), common_prefix(other->sequence.tokens(), text.sequence.tokens())));
    const std::int64_t pages = alike / kernel::kKeys * kernel::kKeys;
    // What is there already has been taken, or cannot be.
    if (pages <= std::max(known, other->cache->length())) continue;
    known = pages;
    best = {other->id, pages};
    if (other->cache->recurrent() != nullptr) keep_split(*other, alike);
  }
  return best;
}

// Takes over beginnings that were read meanwhile, or will not be: then from what there is.
void TextRunner::take_beginnings() {
  for (const auto& text : active_) {
    if (text->awaited.positions == 0) continue;
    const auto reader = std::find_if(active_.begin(), active_.end(),
                                     [&](const auto& t) { return t->id == text->awaited.id; });
    if (reader != active_.end() && (*reader)->cache->length() < text->awaited.positions) continue;
    if (text->request.drafter) text->request.drafter->forget(text->id);
    begin(*text);
    text->awaited = awaited_by(*text);
  }
}

void TextRunner::begin(Text& text) {
  take_beginning(text);
  text.prompt_read = false;
  text.split = 0;
  if (options_.max_prefixes == 0 || text.cache->recurrent() == nullptr) return;
  const auto tokens = text.sequence.tokens().first(most_shared(text));
  std::size_t common = prefixes_.common(tokens);
  for (const auto& other : active_) {
    if (other.get() == &text) continue;
    common = std::max(common, common_prefix(other->sequence.tokens(), tokens));
  }
  keep_split(text, static_cast<std::int64_t>(common));
}

// Takes over the keys and values of the longest known beginning.
void TextRunner::take_beginning(Text& text) {
  TextDrafter* drafter = text.request.drafter.get();
  text.shared = 0;
  for (;;) {
    text.cache.emplace(model_.lm.make_cache(pool_));
    if (options_.max_prefixes == 0) return;
    const Beginning known = beginning_of(text);
    if (known.cache == nullptr) return;
    const auto positions = static_cast<std::int64_t>(known.length);
    try {
      text.cache.emplace(known.cache->share(positions));
    } catch (const KvPoolFull&) {  // float caches are copied
      if (prefixes_.evict()) continue;
      text.cache.emplace(model_.lm.make_cache(pool_));
      return;
    }
    if (known.known_to_drafter && drafter != nullptr &&
        !drafter->share(known.from, text.id, positions)) {
      text.cache.emplace(model_.lm.make_cache(pool_));
      return;
    }
    text.shared = std::min(known.length, text.request.prompt.size());
    return;
  }
}

}  // namespace forerun
