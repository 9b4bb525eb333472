#include "forerun/models/dflash/dflash_passes.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <utility>

#include "forerun/models/dflash/four_bit_dflash.h"
#include "forerun/models/dflash/int8_dflash.h"

namespace forerun {
namespace {

class TensorContext : public DFlashContext {
 public:
  explicit TensorContext(const DFlash& model) : cache(model) {}
  explicit TensorContext(DFlashCache c) : cache(std::move(c)) {}
  std::int64_t length() const noexcept override { return cache.length(); }
  std::unique_ptr<DFlashContext> share(std::int64_t positions) const override {
    return std::make_unique<TensorContext>(cache.share(positions));
  }
  DFlashCache cache;
};

// With tensor operations, sequence by sequence: used without int8, and as its reference.
class TensorPasses : public DFlashPasses {
 public:
  explicit TensorPasses(DFlash model)
      : DFlashPasses(model, Precision::kF32), model_(std::move(model)) {}

  std::unique_ptr<DFlashContext> make_context() const override {
    return std::make_unique<TensorContext>(model_);
  }

  Blocks forward(std::span<const BlockSpan> sequences) const override {
    const c10::InferenceMode no_autograd;
    std::vector<at::Tensor> hidden = {at::empty({0, config_.hidden}, at::kFloat)};
    for (const BlockSpan& sequence : sequences) {
      DFlashCache& cache = static_cast<TensorContext&>(*sequence.context).cache;
      if (sequence.fresh > 0) {
        // The bytes are only read.
        auto* values = const_cast<float*>(sequence.features);
        cache.append(model_,
                     at::from_blob(values, {sequence.fresh, model_.fc.size(1)}, at::kFloat));
      }
      if (sequence.drafts == 0) continue;
      const std::int64_t start = cache.length();
      hidden.push_back(block_hidden(model_, cache, masked_block(model_, sequence.anchor), start)
                           .narrow(0, config_.first_drafting_slot(), sequence.drafts)
                           .to(at::kFloat));
    }
    Blocks out{.logits = {}, .hidden = at::cat(hidden).contiguous(), .states = {}};
    out.logits =
        block_logits(model_, out.hidden.to(model_.fc.scalar_type())).to(at::kFloat).contiguous();
    const Linear states = slot_projection(model_);
    out.states = states.weight.defined() ? states(out.hidden).to(at::kFloat).contiguous()
                                         : at::empty({out.hidden.size(0), 0}, at::kFloat);
    return out;
  }

  std::int64_t weight_bytes() const noexcept override {
    DFlash m = model_;
    auto bytes = static_cast<std::int64_t>(m.head.nbytes());
    for (const ModelWeight& w : weights(m)) bytes += static_cast<std::int64_t>(w.tensor->nbytes());
    return bytes;
  }

 private:
  DFlash model_;
};

}  // namespace

DFlashPasses::DFlashPasses(const DFlash& m, Precision precision)
    : config_(m.config),
      markov_(m.markov_w1, m.markov_w2, precision,
              m.config.markov_gated
                  ? m.markov_gate.weight.narrow(1, m.config.hidden, m.config.markov_rank)
                  : at::Tensor()),
      selector_(m.predecessors, m.successors, m.config.selector_top_k) {
  if (m.draft_to_target.defined()) {
    const at::Tensor ids = m.draft_to_target.contiguous();
    tokens_.assign(ids.const_data_ptr<std::int64_t>(),
                   ids.const_data_ptr<std::int64_t>() + ids.numel());
  }
  if (m.confidence_weight.defined()) {
    const at::Tensor w = m.confidence_weight.detach().to(at::kFloat).contiguous();
    confidence_.assign(w.const_data_ptr<float>(), w.const_data_ptr<float>() + w.numel());
    confidence_.push_back(m.confidence_bias.item<float>());
  }
}

void DFlashPasses::condition(Token previous, std::span<const float> state,
                             std::span<float> logits) const {
  if (selects()) return selector_.select(previous, state, logits);
  if (markov_.defined()) markov_.add(previous, logits, state);
}

void DFlashPasses::condition(Token previous, std::span<const float> state,
                             std::span<const std::int32_t> ids, std::span<float> logits) const {
  if (selects()) return selector_.add(previous, state, ids, logits);
  if (markov_.defined()) markov_.add(previous, ids, logits, state);
}

double DFlashPasses::confidence(std::span<const float> hidden, Token previous) const {
  double sum = static_cast<double>(confidence_.back());
  std::size_t i = 0;
  for (const float x : hidden) sum += static_cast<double>(confidence_[i++] * x);
  if (config_.confidence_sees_markov && markov_.defined()) {
    for (const float x : markov_.before(previous)) {
      sum += static_cast<double>(confidence_[i++] * x);
    }
  }
  return 1.0 / (1.0 + std::exp(-sum));
}

std::unique_ptr<DFlashPasses> DFlashPasses::make(DFlash model, Precision precision) {
  const bool fits = model.config.features() * model.config.hidden <= Int8Matrix::kMostInputs;
  if (precision == Precision::kInt8 && fits) return std::make_unique<Int8DFlash>(model);
  if (model.config.weight_bits == 4 && fits_four_bits(model)) model = rounded_to_four_bits(model);
  return std::make_unique<TensorPasses>(std::move(model));
}

}  // namespace forerun
