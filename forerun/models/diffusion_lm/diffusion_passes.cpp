#include "forerun/models/diffusion_lm/diffusion_passes.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace forerun {

std::int64_t DiffusionText::length() const noexcept {
  return cache_ ? cache_->length() : static_cast<std::int64_t>(tokens_.size());
}

DiffusionText DiffusionText::share(std::int64_t positions) const {
  DiffusionText out;
  if (cache_) out.cache_ = cache_->share(positions);
  const auto kept = std::min(tokens_.size(), static_cast<std::size_t>(positions));
  out.tokens_.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(kept));
  return out;
}

DiffusionPasses::DiffusionPasses(DiffusionLm model, std::int64_t vocab)
    : model_(std::move(model)), pool_(std::make_shared<KvPool>()) {
  if (model_.embedding.defined()) {
    const bool bf16 = model_.embedding.scalar_type() == at::kBFloat16;
    model_.embedding = model_.embedding.to(bf16 ? at::kBFloat16 : at::kFloat).contiguous();
    const at::Tensor mask = model_.mask.to(at::kFloat).contiguous();
    const at::Tensor& table = model_.embedding;
    if (table.dim() != 2 || table.size(0) < model_.config.vocab || mask.numel() != table.size(1)) {
      throw std::invalid_argument(
          "the diffusion language model's embedding lacks tokens, or its mask has another width");
    }
    mask_.assign(mask.const_data_ptr<float>(), mask.const_data_ptr<float>() + mask.numel());
  }
  if (model_.output_tokens.defined()) {
    const at::Tensor ids = model_.output_tokens.contiguous();
    tokens_.assign(ids.const_data_ptr<std::int64_t>(),
                   ids.const_data_ptr<std::int64_t>() + ids.numel());
  }
  // Tokens of outputs rise: those beyond a vocabulary are the last ones.
  std::int64_t& outputs = model_.config.outputs;
  while (vocab > 0 && outputs > 0 && token(outputs - 1) >= vocab) --outputs;
  for (std::int64_t i = 0; i < outputs; ++i) {
    if (token(i) == model_.config.mask_token) forbidden_ = i;
  }
}

DiffusionText DiffusionPasses::begin() const {
  DiffusionText out;
  if (keeps()) out.cache_ = model_.body.make_cache(pool_);
  return out;
}

bool DiffusionPasses::keeps() const noexcept {
  return model_.config.attention == DiffusionAttention::kBlock;
}

void DiffusionPasses::check(const MaskedSpan& span) const {
  const DiffusionConfig& c = model_.config;
  const auto known = [&](Token t) { return t >= 0 && t < c.vocab; };
  for (const Token t : span.tokens) {
    if (known(t)) continue;
    throw std::invalid_argument(fmt::format(
        "token {} lies outside the diffusion language model's vocabulary of {}: was the text "
        "encoded with its tokenizer?",
        t, c.vocab));
  }
  for (const Token t : span.places) {
    if (known(t) || t == kMaskedToken) continue;
    throw std::invalid_argument(
        fmt::format("a place holds token {}, outside the vocabulary of {}", t, c.vocab));
  }
  const auto places = static_cast<std::int64_t>(span.places.size());
  const std::int64_t end =
      span.text->length() + static_cast<std::int64_t>(span.tokens.size()) + places;
  if (end > context()) {
    throw std::invalid_argument(fmt::format(
        "{} positions do not fit the diffusion language model's context of {}", end, context()));
  }
  const bool begun = keeps() ? !span.tokens.empty() : end > places;
  if (places > 0 && c.shifted && !begun) {
    throw std::invalid_argument(
        "places of a pass follow no token of it; the one before them predicts the first");
  }
}

// The rows of one text in a pass.
struct DiffusionPasses::Rows {
  std::vector<Token> ids;                    // masks as kMaskedToken
  std::vector<float> embeddings;             // [ids, hidden], where they are the input
  std::vector<std::int32_t> groups, scored;  // groups: empty for a chain
  std::vector<std::int32_t> kept;            // rows that stay
};

DiffusionPasses::Rows DiffusionPasses::rows_of(const MaskedSpan& span,
                                               std::span<const Token> fresh) const {
  Rows out;
  if (!keeps() && span.places.empty()) return out;
  if (!keeps()) out.ids = span.text->tokens_;
  out.ids.insert(out.ids.end(), fresh.begin(), fresh.end());
  const std::size_t text = out.ids.size();
  std::size_t places = span.places.size();
  // A masked last place says nothing to the rows before it.
  if (keeps() && model_.config.shifted && places > 0 && span.places.back() == kMaskedToken)
    --places;
  out.ids.insert(out.ids.end(), span.places.begin(),
                 span.places.begin() + static_cast<std::ptrdiff_t>(places));
  for (std::size_t i = 0; i < span.places.size(); ++i) {
    out.scored.push_back(static_cast<std::int32_t>(text + i - (model_.config.shifted ? 1 : 0)));
  }
  if (keeps()) {
    for (std::size_t i = 0; i < text; ++i) out.kept.push_back(static_cast<std::int32_t>(i));
    if (places > 0) out.groups.assign(text, -1);
    out.groups.resize(places > 0 ? out.ids.size() : 0, 0);
  } else {
    out.groups.assign(out.ids.size(), 0);
  }
  embed(out);
  return out;
}

// Not by operations on tensors: from some thousand values on they run on other threads than a pass,
// which take the cores from each other for milliseconds.
void DiffusionPasses::embed(Rows& rows) const {
  if (!model_.embedding.defined()) {
    std::replace(rows.ids.begin(), rows.ids.end(), kMaskedToken, model_.config.mask_token);
    return;
  }
  const auto width = static_cast<std::size_t>(model_.embedding.size(1));
  const auto* halves = model_.embedding.scalar_type() == at::kBFloat16
                           ? model_.embedding.const_data_ptr<at::BFloat16>()
                           : nullptr;
  const float* floats = halves == nullptr ? model_.embedding.const_data_ptr<float>() : nullptr;
  rows.embeddings.resize(rows.ids.size() * width);
  auto out = rows.embeddings.begin();
  for (const Token id : rows.ids) {
    if (id < 0) {
      out = std::copy(mask_.begin(), mask_.end(), out);
      continue;
    }
    const std::size_t from = static_cast<std::size_t>(id) * width;
    out = halves != nullptr ? std::copy_n(halves + from, width, out)
                            : std::copy_n(floats + from, width, out);
  }
}

SequenceSpan DiffusionPasses::span_of(const Rows& rows, KvCache& cache) const {
  return {.cache = &cache,
          .tokens =
              rows.embeddings.empty() ? std::span<const Token>(rows.ids) : std::span<const Token>(),
          .groups = rows.groups,
          .scored_rows = rows.scored,
          .embeddings = rows.embeddings};
}

void DiffusionPasses::read(DiffusionText& text, std::span<const Token> tokens) const {
  while (!tokens.empty()) {
    const auto piece =
        tokens.first(std::min(tokens.size(), static_cast<std::size_t>(prefill_rows(model_.body))));
    const Rows rows = rows_of({.text = &text}, piece);
    const SequenceSpan span = span_of(rows, *text.cache_);
    forerun::forward(model_.body, {&span, 1});
    tokens = tokens.subspan(piece.size());
  }
}

at::Tensor DiffusionPasses::forward(std::span<const MaskedSpan> texts) const {
  constexpr std::size_t kMostFresh = 128;  // of a text, in the pass of its places
  for (const MaskedSpan& span : texts) check(span);
  const c10::InferenceMode no_autograd;
  std::vector<Rows> rows;
  std::vector<KvCache> once;  // of texts that are read again in every pass
  once.reserve(texts.size());
  std::vector<SequenceSpan> spans;
  rows.reserve(texts.size());
  for (const MaskedSpan& span : texts) {
    std::span<const Token> fresh = span.tokens;
    if (keeps() && fresh.size() > kMostFresh) {
      const std::size_t before = fresh.size() - kMostFresh;
      read(*span.text, fresh.first(before));
      fresh = fresh.subspan(before);
    }
    if (!keeps()) once.push_back(model_.body.make_cache(pool_));
    rows.push_back(rows_of(span, fresh));
    if (rows.back().ids.empty()) continue;
    spans.push_back(span_of(rows.back(), keeps() ? *span.text->cache_ : once.back()));
  }
  at::Tensor logits = spans.empty() ? at::empty({0, model_.config.outputs}, at::kFloat)
                                    : forerun::forward(model_.body, spans);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    DiffusionText& text = *texts[i].text;
    if (!keeps()) {
      text.tokens_.insert(text.tokens_.end(), texts[i].tokens.begin(), texts[i].tokens.end());
    } else if (text.cache_->pending()) {
      text.cache_->keep(rows[i].kept);
    }
  }
  logits = logits.narrow(1, 0, model_.config.outputs);
  if (forbidden_ >= 0) {
    logits.select(1, forbidden_).fill_(-std::numeric_limits<double>::infinity());
  }
  return logits;
}

}  // namespace forerun
