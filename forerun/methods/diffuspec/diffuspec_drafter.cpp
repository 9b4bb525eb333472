#include "forerun/methods/diffuspec/diffuspec_drafter.h"

#include <algorithm>
#include <stdexcept>

#include "forerun/core/rng_key.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/tree/slot_candidates.h"

namespace forerun {
namespace {

DraftPicker picker_for(const DiffuSpec& method) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < method.network.config().outputs; ++i) {
    tokens.push_back(method.network.token(i));
  }
  return {method.vocab, std::move(tokens)};
}

// The candidates of a place by falling probability; none if its scores are not numbers.
Place place_of(std::span<const float> row, double temperature, const DiffuSpec& method) {
  const SlotCandidates near = slot_candidates(row, temperature);
  const std::vector<double> log_q = log_laws(near, near.logits, temperature);
  Place out;
  for (std::size_t i = 0; i < log_q.size(); ++i) {
    out.push_back({method.network.token(near.ids[i]), log_q[i]});
  }
  std::sort(out.begin(), out.end(), [](const PlaceToken& a, const PlaceToken& b) {
    return a.log_q != b.log_q ? a.log_q > b.log_q : a.token < b.token;
  });
  return out;
}

}  // namespace

DiffuSpecDrafter::DiffuSpecDrafter(std::shared_ptr<const DiffuSpec> method)
    : texts_(std::move(method)), picker_(picker_for(texts_.method())) {}

std::vector<SequencePlan> DiffuSpecDrafter::plan(std::span<TokenSequence* const> sequences,
                                                 std::span<const std::size_t> most,
                                                 const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const TokenSequence& sequence = *sequences[i];
    const std::size_t places = texts_.places(sequence) > 0 ? texts_.method().most() : 0;
    plans.push_back({.id = sequence.id(),
                     .limit = std::min(most[i], places),
                     .unread = texts_.unread(sequence)});
  }
  return plans;
}

std::vector<TokenDraft> DiffuSpecDrafter::propose(std::span<TokenSequence* const> sequences,
                                                  std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(sequences.size());
  std::vector<const TokenSequence*> wanted;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    drafts[i].origin = draft_origin(*sequences[i]);
    if (lengths[i] > 0) wanted.push_back(sequences[i]);
  }
  picker_.begin_round();
  texts_.predict(wanted);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (lengths[i] == 0) continue;
    try {
      fill(*sequences[i], lengths[i], drafts[i]);
    } catch (const std::exception&) {  // scores that are not numbers: the target judges the text
      DraftPicker::end(drafts[i]);
    }
  }
  return drafts;
}

// How many tokens are drafted depends on the text and the length asked for alone.
void DiffuSpecDrafter::fill(const TokenSequence& sequence, std::size_t length, TokenDraft& draft) {
  const SequenceId id = sequence.id();
  length = std::min(length, texts_.predicted(id));
  const bool searched = draft.origin == Origin::kSearched && texts_.method().searches();
  const std::vector<Token> path = searched ? best_path(sequence) : std::vector<Token>();
  if (searched) length = std::min(length, path.size());
  for (std::size_t k = 0; k < length; ++k) {
    const std::span<const float> row = texts_.logits(id, k);
    std::vector<float> own(row.begin(), row.end());
    if (searched) {
      if (!picker_.append(sequence, path[k], own, draft)) return;
    } else {
      picker_.pick(sequence, own, sequence.key_at(sequence.tokens().size() + k), draft);
    }
  }
}

std::vector<Token> DiffuSpecDrafter::best_path(const TokenSequence& sequence) {
  const DiffuSpec& method = texts_.method();
  const auto ends = [&](Token t) { return method.ends(t); };
  const double t = sequence.sampling().greedy() ? 1.0 : sequence.sampling().temperature;
  std::vector<Place> places;
  for (std::size_t i = 0; i < texts_.predicted(sequence.id()); ++i) {
    Place place = place_of(texts_.logits(sequence.id(), i), t, method);
    if (place.empty()) break;
    cut_place(place, method.options.search, ends);
    places.push_back(std::move(place));
  }
  const std::vector<DraftPath> paths =
      search_paths(places, sequence.tokens(), texts_.law(sequence), ends, method.options.search);
  return paths.empty() ? std::vector<Token>() : paths.front().tokens;
}

}  // namespace forerun
