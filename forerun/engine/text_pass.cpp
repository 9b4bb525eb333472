#include "forerun/engine/text_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace forerun {
namespace {

std::span<const std::int64_t> features_of(const Text& text) {
  return text.request.drafter ? text.request.drafter->features() : std::span<const std::int64_t>();
}

// Whether the outputs are the largest logits as they are, and drafts are checked.
bool checks_greedily(const Text& text, const CompanionRows& companions) {
  return text.sequence.sampling().greedy() && text.sequence.changed().none() &&
         companions.empty() && text.request.drafter;
}

}  // namespace

void TextPass::verify(Text& text, const TokenDraft& draft, const CompanionRows& companions) {
  const auto pending =
      text.sequence.tokens().subspan(static_cast<std::size_t>(text.cache->length()));
  Item item{.text = &text,
            .tokens = {pending.begin(), pending.end()},
            .parents = {},
            .scored = static_cast<std::int64_t>(draft.size()) + 1,
            .first = text.cache->length(),
            .before = static_cast<std::int64_t>(pending.size())};
  if (draft.tree() || !companions.empty()) {
    const auto before = static_cast<std::int32_t>(pending.size());
    for (std::int32_t i = 0; i < before; ++i) item.parents.push_back(i - 1);
    for (std::size_t i = 0; i < draft.size(); ++i) {
      item.parents.push_back(before + draft.parent(i));
    }
  }
  item.tokens.insert(item.tokens.end(), draft.tokens.begin(), draft.tokens.end());
  if (!companions.empty()) add(item, companions);
  item.greedy = checks_greedily(text, companions);
  rows_ += static_cast<std::int64_t>(item.tokens.size());
  items_.push_back(std::move(item));
}

// Their logits follow those of the draft.
void TextPass::add(Item& item, const CompanionRows& companions) {
  const auto first = static_cast<std::int32_t>(item.tokens.size());
  for (auto row = first - static_cast<std::int32_t>(item.scored); row < first; ++row) {
    item.scored_rows.push_back(row);
  }
  for (const std::int32_t row : companions.scored) item.scored_rows.push_back(first + row);
  for (const std::int32_t row : companions.masks) item.masks.push_back(first + row);
  item.skips.assign(item.tokens.size(), 0);
  item.groups.assign(item.tokens.size(), -1);
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(item.tokens, companions.tokens);
  append(item.skips, companions.skips);
  append(item.groups, companions.groups);
  for (const std::int32_t parent : companions.parents) {
    item.parents.push_back(static_cast<std::int32_t>(item.before) + parent);
  }
  item.companions = companions;
}

bool TextPass::drop_companions() {
  for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
    const std::size_t rows = item->companions.rows();
    if (rows == 0) continue;
    item->tokens.resize(item->tokens.size() - rows);
    item->parents.resize(item->tokens.size());
    item->skips.clear();
    item->groups.clear();
    item->scored_rows.clear();
    item->masks.clear();
    item->companions = {};
    rows_ -= static_cast<std::int64_t>(rows);
    return true;
  }
  return false;
}

void TextPass::read(Text& text, std::int64_t tokens) {
  const auto piece = text.sequence.tokens().subspan(static_cast<std::size_t>(text.cache->length()),
                                                    static_cast<std::size_t>(tokens));
  items_.push_back({.text = &text,
                    .tokens = {piece.begin(), piece.end()},
                    .parents = {},
                    .scored = 0,
                    .first = text.cache->length()});
  rows_ += tokens;
}

std::size_t TextPass::bytes() const {
  std::size_t sum = 0;
  for (const Item& item : items_) {
    sum += item.text->cache->bytes_to_reserve(plan_of(item));
  }
  return sum;
}

RowPlan TextPass::plan_of(const Item& item) const {
  return RowPlan::of(static_cast<std::int64_t>(item.tokens.size()), item.parents, item.groups,
                     item.skips);
}

void TextPass::drop(const Text& text) {
  std::erase_if(items_, [&](const Item& item) {
    if (item.text != &text) return false;
    rows_ -= static_cast<std::int64_t>(item.tokens.size());
    return true;
  });
}

void TextPass::run(const DecoderLm& model) {
  const auto start = std::chrono::steady_clock::now();
  for (const Item& item : items_) {
    for (const std::int64_t block : features_of(*item.text)) {
      if (std::find(kept_.begin(), kept_.end(), block) == kept_.end()) kept_.push_back(block);
    }
  }
  hidden_ = model.config.hidden;
  std::vector<SequenceSpan> spans;
  std::int64_t logits = 0;
  for (Item& item : items_) {
    const bool keeps = !features_of(*item.text).empty();
    if (keeps) {
      item.states.resize(item.tokens.size() * kept_.size() * static_cast<std::size_t>(hidden_));
    }
    item.first_logits = logits;
    logits += item.scored + static_cast<std::int64_t>(item.companions.scored.size());
    spans.push_back(
        {.cache = &*item.text->cache,
         .tokens = item.tokens,
         .scored = item.scored_rows.empty() ? item.scored : 0,
         .states = keeps ? item.states.data() : nullptr,
         .parents = item.parents,
         .groups = item.groups,
         .skips = item.skips,
         .scored_rows = item.scored_rows,
         .adapters = item.companions.lora.get(),
         .masks = item.masks,
         .greedy = item.greedy,
         .unreached_logits = item.greedy ? item.text->request.drafter->unreached_logits() : 0});
  }
  logits_ = forward(model, spans, kept_);
  for (Item& item : items_) gather(item, hidden_);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A drafter gets its own blocks in its own order; most often these are all that were kept.
void TextPass::gather(Item& item, std::int64_t hidden) const {
  const auto features = features_of(*item.text);
  if (features.empty() || std::equal(features.begin(), features.end(), kept_.begin(), kept_.end()))
    return;
  const auto width = static_cast<std::size_t>(hidden);
  item.gathered.reserve(item.tokens.size() * features.size() * width);
  for (std::size_t row = 0; row < item.tokens.size(); ++row) {
    for (const std::int64_t block : features) {
      const auto at =
          static_cast<std::size_t>(std::find(kept_.begin(), kept_.end(), block) - kept_.begin());
      const float* from = item.states.data() + (row * kept_.size() + at) * width;
      item.gathered.insert(item.gathered.end(), from, from + width);
    }
  }
}

void TextPass::keep(Text& text, const Outcome& outcome) {
  // The newest output was not part of the pass: its keys and values come with the next one.
  const auto kept = static_cast<std::int64_t>(text.sequence.tokens().size()) - 1;
  Item& item = const_cast<Item&>(item_of(text));
  if (item.parents.empty()) return text.cache->truncate(kept);
  const auto before = static_cast<std::int32_t>(item.before);
  std::vector<std::int32_t> path;
  for (std::int32_t i = 0; i < before; ++i) path.push_back(i);
  for (std::size_t i = 1; i <= outcome.accepted; ++i) {
    path.push_back(before - 1 + static_cast<std::int32_t>(outcome.decided_by(i)));
  }
  text.cache->keep(path);
  text.cache->truncate(kept);
  std::vector<float>& states = item.gathered.empty() ? item.states : item.gathered;
  if (states.empty()) return;
  const auto width = static_cast<std::ptrdiff_t>(states.size() / item.tokens.size());
  for (std::size_t i = 0; i < path.size(); ++i) {  // rows move down
    const auto from = states.begin() + path[i] * width;
    std::copy(from, from + width, states.begin() + static_cast<std::ptrdiff_t>(i) * width);
  }
}

const TextPass::Item& TextPass::item_of(const Text& text) const {
  const auto found =
      std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.text == &text; });
  if (found == items_.end()) throw std::logic_error("TextPass: the text has no rows in the pass");
  return *found;
}

HiddenStates TextPass::states(const Text& text) const {
  const Item& item = item_of(text);
  if (item.states.empty()) return {};
  return {.first = item.first,
          .count = static_cast<std::int64_t>(item.tokens.size()),
          .rows = item.gathered.empty() ? item.states.data() : item.gathered.data()};
}

VerifiedRows TextPass::verified(const Text& text, const TokenDraft& draft) const {
  const Item& item = item_of(text);
  return {.first = item.first_logits,
          .count = item.scored,
          .sampling = text.sequence.sampling(),
          .changed = text.sequence.changed(),
          .draft = &draft,
          .keep_raw = text.request.log_probabilities.has_value(),
          .states = states(text),
          .companions = static_cast<std::int64_t>(item.companions.scored.size()),
          .companion_rows = static_cast<std::int64_t>(item.companions.rows()),
          .mix = item.companions.mix};
}

double TextPass::reading_seconds() const {
  double sum = 0.0;
  for (const Piece& piece : pieces()) sum += piece.seconds;
  return sum;
}

std::vector<Text*> TextPass::texts() const {
  std::vector<Text*> out;
  for (const Item& item : items_) out.push_back(item.text);
  return out;
}

std::vector<TextPass::Piece> TextPass::pieces() const {
  std::vector<Piece> out;
  for (const Item& item : items_) {
    if (item.scored > 0) continue;
    const auto rows = static_cast<std::int64_t>(item.tokens.size());
    out.push_back(
        {item.text, rows, seconds_ * static_cast<double>(rows) / static_cast<double>(rows_)});
  }
  return out;
}

}  // namespace forerun
