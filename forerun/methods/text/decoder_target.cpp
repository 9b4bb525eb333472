#include "forerun/methods/text/decoder_target.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "forerun/core/apply_sampling.h"

namespace forerun {

std::span<float> row_of(const at::Tensor& logits, std::int64_t row) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  return {logits.data_ptr<float>() + static_cast<std::size_t>(row) * vocab, vocab};
}

VerifiedTokens::VerifiedTokens(at::Tensor logits, std::span<const std::int64_t> rows,
                               SamplingParams sampling)
    : logits_(std::move(logits)),
      sampling_(sampling),
      laws_(static_cast<std::size_t>(logits_.size(0))) {
  std::int64_t first = 0;
  for (const std::int64_t n : rows) {
    first_.push_back(first);
    first += n;
  }
}

const TokenLaw& VerifiedTokens::at(std::size_t sequence, std::size_t step) const {
  const std::int64_t row = first_[sequence] + static_cast<std::int64_t>(step);
  auto& law = laws_[static_cast<std::size_t>(row)];
  if (!law) law = apply_sampling_(row_of(logits_, row), sampling_);
  return *law;
}

KvCache& DecoderTarget::cache_of(const TokenSequence& sequence, std::vector<float>& states) {
  const auto found = caches_.find(sequence.request());
  if (found != caches_.end()) return found->second;
  return caches_.emplace(sequence.request(), read_prompt(sequence, states)).first->second;
}

KvCache DecoderTarget::read_prompt(const TokenSequence& sequence, std::vector<float>& states) {
  const auto start = std::chrono::steady_clock::now();
  KvCache cache = model_.make_cache();
  const auto tokens = sequence.tokens();
  const auto prompt = tokens.first(tokens.size() - 1);
  states.resize(prompt.size() * static_cast<std::size_t>(width()));
  prefill_passes_ +=
      prefill(model_, cache, prompt, kept_.empty() ? nullptr : states.data(), kept_, go_on_);
  prefill_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return cache;
}

VerifiedTokens DecoderTarget::verify(std::span<TokenSequence* const> sequences,
                                     std::span<const TokenDraft> drafts) {
  std::vector<std::vector<Token>> inputs(sequences.size());
  std::vector<SequenceSpan> spans(sequences.size());
  std::vector<std::int64_t> rows(sequences.size());
  std::vector<HiddenStates> kept(sequences.size());
  states_.resize(std::max(states_.size(), sequences.size()));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    std::vector<float>& states = states_[i];
    states.clear();
    if (i > 0 && !caches_.contains(sequences[i]->request())) expect_to_go_on(go_on_);
    KvCache& cache = cache_of(*sequences[i], states);
    const std::size_t prompt = states.size();
    const auto pending = sequences[i]->tokens().subspan(static_cast<std::size_t>(cache.length()));
    inputs[i].assign(pending.begin(), pending.end());
    inputs[i].insert(inputs[i].end(), drafts[i].tokens.begin(), drafts[i].tokens.end());
    rows[i] = static_cast<std::int64_t>(drafts[i].size()) + 1;
    states.resize(prompt + inputs[i].size() * static_cast<std::size_t>(width()));
    kept[i].rows = states.data();
    kept[i].first = prompt > 0 ? 0 : cache.length();
    spans[i] = {.cache = &cache,
                .tokens = inputs[i],
                .scored = rows[i],
                .states = kept_.empty() ? nullptr : states.data() + prompt};
  }
  VerifiedTokens out(forward(model_, spans, kept_), rows, sampling_);
  out.set_states(std::move(kept));
  return out;
}

void DecoderTarget::keep(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
                         std::span<const Outcome>) {
  for (const TokenSequence* sequence : sequences) {
    if (sequence->done()) {
      caches_.erase(sequence->request());
      continue;
    }
    // The newest output was not part of the pass: its keys and values come with the next one.
    caches_.at(sequence->request())
        .truncate(static_cast<std::int64_t>(sequence->tokens().size()) - 1);
  }
}

}  // namespace forerun
