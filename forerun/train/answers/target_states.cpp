#include "forerun/train/answers/target_states.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "forerun/models/decoder_training.h"

namespace forerun {

TargetStates::TargetStates(std::shared_ptr<const DecoderLm> target, TargetHead head,
                           std::vector<std::int64_t> layers)
    : TargetStates(target, std::move(head), std::move(layers),
                   target->embedding.defined() && !target->embedding.is_cpu()) {}

TargetStates::TargetStates(std::shared_ptr<const DecoderLm> target, TargetHead head,
                           std::vector<std::int64_t> layers, bool as_training)
    : target_(std::move(target)),
      head_(std::move(head)),
      kept_(std::move(layers)),
      as_training_(as_training) {
  kept_.push_back(target_->config.layers - 1);
  if (!as_training_) return;
  for (TransformerBlock block : target_->layers) {
    for (const Linear* l : block.linears()) {
      products_of_row_ += static_cast<double>(l->weight.numel());
    }
  }
}

TargetStates::Batch TargetStates::of(std::span<const std::span<const Token>> documents) {
  const at::NoGradGuard no_autograd;
  const std::int64_t width = target_->config.hidden, all = static_cast<std::int64_t>(kept_.size());
  if (as_training_) {
    const at::Tensor kept = training_streams(*target_, documents, kept_);
    return {.features = kept.narrow(1, 0, (all - 1) * width),
            .last = kept.narrow(1, (all - 1) * width, width)};
  }
  std::int64_t rows = 0;
  for (const auto& tokens : documents) rows += static_cast<std::int64_t>(tokens.size());
  const at::Tensor states = at::empty({rows, all * width}, at::kFloat);
  while (caches_.size() < documents.size()) caches_.push_back(target_->make_cache());
  std::vector<SequenceSpan> sequences;
  float* place = states.data_ptr<float>();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    caches_[i].truncate(0);
    sequences.push_back({.cache = &caches_[i], .tokens = documents[i], .states = place});
    place += static_cast<std::int64_t>(documents[i].size()) * all * width;
  }
  forward(*target_, sequences, kept_);
  return {.features = states.narrow(1, 0, (all - 1) * width),
          .last = states.narrow(1, (all - 1) * width, width)};
}

StateStore::Shape TargetStates::shape() const {
  const auto layers = static_cast<std::int64_t>(kept_.size()) - 1;
  return {.features = layers * target_->config.hidden, .last = target_->config.hidden};
}

TargetStates::Batch TargetStates::of(std::span<const std::span<const Token>> documents,
                                     std::span<const std::size_t> numbers, StateStore& store) {
  const at::NoGradGuard no_autograd;
  std::int64_t rows = 0;
  for (const auto& tokens : documents) rows += static_cast<std::int64_t>(tokens.size());
  const Batch out{.features = at::empty({rows, shape().features}, at::kFloat),
                  .last = at::empty({rows, shape().last}, at::kFloat)};
  struct Missing {
    std::size_t document;
    at::Tensor features, last;  // where they go
  };
  std::vector<Missing> missing;
  std::vector<std::span<const Token>> texts;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto n = static_cast<std::int64_t>(documents[i].size());
    const at::Tensor features = out.features.narrow(0, row, n), last = out.last.narrow(0, row, n);
    row += n;
    if (store.get(numbers[i], features, last)) continue;
    missing.push_back({numbers[i], features, last});
    texts.push_back(documents[i]);
  }
  if (missing.empty()) return out;
  const Batch made = of(texts);
  row = 0;
  for (Missing& m : missing) {
    const std::int64_t n = m.features.size(0);
    m.features.copy_(made.features.narrow(0, row, n));
    m.last.copy_(made.last.narrow(0, row, n));
    row += n;
    // Kept or not, they are rounded as kept ones are: all epochs learn from the same numbers.
    store.put(m.document, m.features, m.last);
  }
  return out;
}

at::Tensor TargetStates::logits(const at::Tensor& last, const at::Tensor& rows) const {
  const at::Tensor x = last.to(at::kFloat);
  const at::Tensor scale = (x.square().mean(-1, true) + head_.norm_eps).rsqrt();
  const at::Tensor out = at::linear(x * scale * head_.norm, rows).to(at::kFloat);
  return head_.softcap > 0.0 ? at::tanh(out / head_.softcap) * head_.softcap : out;
}

at::Tensor TargetStates::probabilities(const at::Tensor& last) const {
  const at::NoGradGuard no_autograd;
  return at::softmax(logits(last, head_.rows), -1);
}

at::Tensor TargetStates::covered(const at::Tensor& last) const {
  if (!head_.whole.defined()) return {};
  const at::NoGradGuard no_autograd;
  constexpr std::int64_t kRows = 512;  // of large vocabularies' logits at a time
  const std::int64_t n = last.size(0);
  const at::Tensor out = at::empty({n}, last.options().dtype(at::kFloat));
  for (std::int64_t begin = 0; begin < n; begin += kRows) {
    const std::int64_t rows = std::min(kRows, n - begin);
    const at::Tensor all = logits(last.narrow(0, begin, rows), head_.whole);
    const at::Tensor log_share =
        at::logsumexp(all.index_select(1, head_.drafted), 1) - at::logsumexp(all, 1);
    out.narrow(0, begin, rows).copy_(log_share.exp());
  }
  return out;
}

}  // namespace forerun
