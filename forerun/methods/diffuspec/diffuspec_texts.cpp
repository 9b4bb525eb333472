#include "forerun/methods/diffuspec/diffuspec_texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "forerun/core/likeliest.h"
#include "forerun/methods/tree/slot_candidates.h"

namespace forerun {
namespace {

// More unread tokens are read by passes of their own, over several rounds that draft nothing if
// they are many: no round takes long.
constexpr std::size_t kPending = 32, kPiece = 128;

std::span<const float> row_at(const at::Tensor& rows, std::size_t row) {
  const auto width = static_cast<std::size_t>(rows.size(1));
  return {rows.const_data_ptr<float>() + row * width, width};
}

// A text in a pass: what the network has not read of it, and places.
struct Asked {
  DiffusionText* read;
  std::span<const Token> fresh;
  std::vector<Token> places;
};

// @param first  position of the first token that it reads
Asked ask(DiffusionText& read, std::size_t first, const TokenSequence& sequence,
          std::vector<Token> places) {
  // The newest token is read again if a round came to nothing: it predicts the first place.
  const auto text = sequence.tokens().subspan(first);
  const auto size = static_cast<std::int64_t>(text.size());
  if (read.length() >= size) read = read.share(size - 1);
  return {&read, text.subspan(static_cast<std::size_t>(read.length())), std::move(places)};
}

at::Tensor pass(const DiffusionPasses& network, std::span<const Asked> asked) {
  std::vector<MaskedSpan> spans;
  for (const Asked& a : asked) {
    spans.push_back({.text = a.read, .tokens = a.fresh, .places = a.places});
  }
  return network.forward(spans).contiguous();
}

}  // namespace

DiffuSpecTexts::Text& DiffuSpecTexts::text_of(SequenceId id) {
  Text& text = texts_[id];
  if (!text.read) {
    text.read = method_->network.begin();
    text.window = DraftWindow({.least = method_->least(), .most = method_->most()});
  }
  return text;
}

DiffuSpecTexts::Text& DiffuSpecTexts::text_to_read(const TokenSequence& sequence) {
  const std::size_t first = first_read(sequence);
  Text& text = text_of(sequence.id());
  if (text.first != first) {
    text.read = method_->network.begin();
    text.first = first;
  }
  text.shared = false;
  return text;
}

std::size_t DiffuSpecTexts::places(const TokenSequence& sequence) const {
  const auto found = texts_.find(sequence.id());
  // A target may have ids that the network lacks: padding, or tokens that were added to it.
  const std::int64_t known = method_->network.config().vocab;
  const auto text = sequence.tokens();
  if (known < method_->vocab &&
      std::any_of(text.begin(), text.end(), [&](Token t) { return t >= known; })) {
    return 0;
  }
  std::size_t wanted = method_->most();
  if (method_->options.control == PlaceControl::kFailFast) wanted = method_->least();
  if (method_->options.control == PlaceControl::kPaper && found != texts_.end()) {
    wanted = found->second.window.length();
  }
  return std::min(wanted, room(sequence));
}

// The first position that the network has read, or is to read if it begins anew: where it has read
// nothing, or lacks more than that, or its context ends. A network that keeps nothing reads all.
std::size_t DiffuSpecTexts::first_read(const TokenSequence& sequence) const {
  if (!method_->keeps()) return 0;
  const std::size_t size = sequence.tokens().size();
  const std::size_t anew = size - std::min(size, method_->context());
  const auto found = texts_.find(sequence.id());
  if (found == texts_.end() || !found->second.read) return anew;
  const Text& text = found->second;
  // What another text has read serves where it began as this one would alone: the same drafts in
  // any company.
  if (text.shared) return anew;
  const auto context = static_cast<std::size_t>(method_->network.context());
  const bool ends = size - text.first + method_->most() > context;
  return ends || text.position() < anew ? anew : text.first;
}

// Places that its context leaves.
std::size_t DiffuSpecTexts::room(const TokenSequence& sequence) const {
  const auto context = static_cast<std::size_t>(method_->network.context());
  return context - std::min(context, sequence.tokens().size() - first_read(sequence));
}

std::size_t DiffuSpecTexts::unread(const TokenSequence& sequence) const {
  if (!method_->keeps()) return 0;  // it reads the text in every pass
  const auto found = texts_.find(sequence.id());
  const std::size_t first = first_read(sequence), size = sequence.tokens().size();
  const bool goes_on = found != texts_.end() && found->second.read && found->second.first == first;
  const std::size_t position = goes_on ? found->second.position() : first;
  const std::size_t missing = size - std::min(size, position);
  return missing > kPending ? missing : 0;
}

// Reads a piece of what the network lacks, if that is much; false: much is left.
bool DiffuSpecTexts::catch_up(const TokenSequence& sequence) {
  const std::size_t missing = unread(sequence);
  if (missing == 0) return true;
  const auto start = std::chrono::steady_clock::now();
  Text& text = text_to_read(sequence);
  Asked piece = ask(*text.read, text.first, sequence, {});
  piece.fresh = piece.fresh.first(std::min(kPiece, missing - 1));
  pass(method_->network, {&piece, 1});
  prefilled_.tokens += piece.fresh.size();
  prefilled_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return unread(sequence) == 0;
}

void DiffuSpecTexts::predict(std::span<const TokenSequence* const> sequences) {
  for (auto& [id, text] : texts_) text.rows.reset();
  std::vector<Asked> asked;
  std::vector<const TokenSequence*> who;
  for (const TokenSequence* sequence : sequences) {
    const std::size_t n = places(*sequence);
    if (n == 0 || !catch_up(*sequence)) continue;
    Text& text = text_to_read(*sequence);
    asked.push_back(ask(*text.read, text.first, *sequence, std::vector<Token>(n, kMaskedToken)));
    who.push_back(sequence);
  }
  if (asked.empty()) return;
  const at::Tensor rows = pass(method_->network, asked);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < who.size(); ++i) {
    const auto n = static_cast<std::int64_t>(asked[i].places.size());
    texts_.at(who[i]->id()).rows = rows.narrow(0, row, n);
    row += n;
  }
  if (method_->options.control != PlaceControl::kFailFast) return;
  for (const TokenSequence* sequence : who) extend(*sequence);
}

// Predicts further places while the newest are confident, given the likeliest tokens of those
// before.
void DiffuSpecTexts::extend(const TokenSequence& sequence) {
  Text& text = texts_.at(sequence.id());
  const std::size_t most = std::min(method_->most(), room(sequence));
  const std::size_t chunk = method_->least();
  at::Tensor newest = text.rows;
  for (std::size_t have = predicted(sequence.id());
       have + chunk <= most && confident(newest, sequence); have += chunk) {
    std::vector<Token> places;
    for (std::size_t i = 0; i < have; ++i) places.push_back(likeliest_at(sequence.id(), i));
    places.resize(have + chunk, kMaskedToken);
    const Asked asked = ask(*text.read, text.first, sequence, std::move(places));
    newest = pass(method_->network, {&asked, 1})
                 .narrow(0, static_cast<std::int64_t>(have), static_cast<std::int64_t>(chunk));
    text.rows = at::cat({text.rows, newest});
  }
}

bool DiffuSpecTexts::confident(const at::Tensor& rows, const TokenSequence& sequence) const {
  const double t = sequence.sampling().greedy() ? 1.0 : sequence.sampling().temperature;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto row = row_at(rows, static_cast<std::size_t>(i));
    const SlotCandidates near = slot_candidates(row, t);
    const std::vector<double> log_q = log_laws(near, near.logits, t);
    if (log_q.empty() ||
        *std::max_element(log_q.begin(), log_q.end()) < std::log(method_->options.confidence)) {
      return false;
    }
  }
  return true;
}

std::size_t DiffuSpecTexts::predicted(SequenceId id) const {
  const auto found = texts_.find(id);
  if (found == texts_.end() || !found->second.rows.defined()) return 0;
  return static_cast<std::size_t>(found->second.rows.size(0));
}

std::span<const float> DiffuSpecTexts::logits(SequenceId id, std::size_t place) const {
  return row_at(texts_.at(id).rows, place);
}

Token DiffuSpecTexts::likeliest_at(SequenceId id, std::size_t place) const {
  const std::vector<Token> best = likeliest(logits(id, place), 1);
  return best.empty() ? kMaskedToken : method_->network.token(best[0]);
}

const NgramLaw& DiffuSpecTexts::law(const TokenSequence& sequence) {
  if (method_->proxy) return *method_->proxy;
  return trigrams(sequence);
}

const OnlineNgram& DiffuSpecTexts::trigrams(const TokenSequence& sequence) {
  Text& text = text_of(sequence.id());
  if (!text.trigrams) text.trigrams.emplace(method_->vocab);
  text.trigrams->read(sequence.tokens());
  return *text.trigrams;
}

void DiffuSpecTexts::observe(SequenceId id, std::size_t accepted) {
  const std::size_t places = predicted(id);
  if (places == 0) return;
  if (method_->options.control == PlaceControl::kPaper) {
    std::size_t generated = 0;
    while (generated < places && !method_->ends(likeliest_at(id, generated))) ++generated;
    texts_.at(id).window.observe(generated, accepted);
  }
  texts_.at(id).rows.reset();
}

bool DiffuSpecTexts::share(SequenceId from, SequenceId to, std::int64_t positions) {
  const auto found = texts_.find(from);
  if (found == texts_.end() || !found->second.read) return true;
  const DiffusionText& read = *found->second.read;
  const std::size_t first = found->second.first;
  const std::int64_t shared = std::min(positions - static_cast<std::int64_t>(first), read.length());
  if (shared <= 0) return true;
  DiffusionText copy = read.share(shared);
  forget(to);
  Text& text = text_of(to);
  text.read = std::move(copy);
  text.first = first;
  text.shared = method_->keeps();
  return true;
}

}  // namespace forerun
