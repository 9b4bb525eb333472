#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "forerun/methods/diffuspec/diffuspec_drafter.h"
#include "tests/support/tiny_diffusion.h"

/// DiffuSpec on a tiny network, by the definition: the laws of one pass over the whole text,
/// ranked, cut and searched here.
namespace forerun {

inline constexpr std::size_t kBlock = 8;

// With a head of all tokens, or of every third.
inline std::shared_ptr<DiffuSpec> method(bool reduced = false) {
  DiffusionLm network = tiny_diffusion("llama_plain", reduced);
  network.config.block = kBlock;
  const std::int64_t vocab = network.config.vocab;
  return std::make_shared<DiffuSpec>(std::move(network), vocab);
}

// Texts that repeat themselves, so that their trigrams say something.
inline std::vector<Token> text_of(std::size_t n, Token salt) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<Token>((i * i + 3) % 11 + salt));
  return out;
}

inline TokenSequence sequence_of(std::vector<Token> text, std::uint32_t request,
                                 double temperature = 0.0, Rule rule = Rule::kMaximal) {
  return {7,  request, std::move(text),
          40, {},      {.sampling = {.temperature = temperature}, .rule = rule}};
}

// [places, outputs] log-probabilities of one pass over the text.
inline at::Tensor laws_of(const DiffuSpec& m, std::span<const Token> text,
                          const std::vector<Token>& places, double temperature = 1.0) {
  DiffusionText read = m.network.begin();
  const MaskedSpan span{.text = &read, .tokens = text, .places = places};
  return at::log_softmax(m.network.forward({&span, 1}).to(at::kDouble) / temperature, 1);
}

inline at::Tensor laws_of(const DiffuSpec& m, std::span<const Token> text, std::size_t n,
                          double temperature = 1.0) {
  return laws_of(m, text, std::vector<Token>(n, kMaskedToken), temperature);
}

// The likeliest tokens of a place, in order.
inline Place likeliest_of(const DiffuSpec& m, const at::Tensor& laws, std::size_t place,
                          std::size_t most) {
  const auto [values, columns] = laws[static_cast<std::int64_t>(place)].sort(0, true);
  Place out;
  for (std::int64_t i = 0;
       i < std::min<std::int64_t>(static_cast<std::int64_t>(most), values.numel()); ++i) {
    out.push_back({m.network.token(columns[i].item<std::int64_t>()), values[i].item<double>()});
  }
  return out;
}

inline std::vector<DraftPath> searched(const DiffuSpec& m, std::span<const Token> text,
                                       const at::Tensor& laws, std::size_t candidates = 64) {
  OnlineNgram trigrams(m.vocab);
  trigrams.read(text);
  const auto ends = [&](Token t) { return m.ends(t); };
  std::vector<Place> places;
  for (std::size_t i = 0; i < static_cast<std::size_t>(laws.size(0)); ++i) {
    places.push_back(likeliest_of(m, laws, i, candidates));
    cut_place(places.back(), m.options.search, ends);
  }
  return search_paths(places, text, trigrams, ends, m.options.search);
}

inline std::vector<TokenDraft> proposed(DiffuSpecDrafter& drafter,
                                        std::vector<TokenSequence*> texts,
                                        const std::vector<std::size_t>& lengths) {
  return drafter.propose(texts, lengths);
}

}  // namespace forerun
