#include "forerun/models/dflash/int8_dflash.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/models/dflash/four_bit_dflash.h"
#include "forerun/models/four_bit_block.h"
#include "forerun/tensor/huge_table.h"
#include "forerun/tensor/reused_rows.h"

namespace forerun {

namespace k = kernel;

namespace {

class PagedContext : public DFlashContext {
 public:
  explicit PagedContext(KvCache c) : cache(std::move(c)) {}
  std::int64_t length() const noexcept override { return cache.length(); }
  std::unique_ptr<DFlashContext> share(std::int64_t positions) const override {
    return std::make_unique<PagedContext>(cache.share(positions));
  }
  KvCache cache;
  std::vector<float> last;  // [hidden]: fc X of the newest position, for networks with slot_state
};

PagedContext& context_of(const BlockSpan& sequence) {
  return static_cast<PagedContext&>(*sequence.context);
}
KvCache& cache_of(const BlockSpan& sequence) { return context_of(sequence).cache; }

}  // namespace

struct Int8DFlash::Workspace {
  explicit Workspace(Int8BlockPass b) : blocks(std::move(b)) {}

  Int8BlockPass blocks;  // context rows are the fresh rows of the context, full rows the slots
  AlignedBuffer<float> context, shifts;
  ReusedRows logits, final, states;
  Int8Activations features, last;
  struct Row {
    std::size_t sequence;
    std::int64_t index;  // of the sequence's fresh rows, or of its slots
  };
  std::vector<Row> fresh, slots;
  std::vector<std::int64_t> first_fresh;  // of each sequence, among `fresh`
  std::vector<std::int64_t> drafting;     // rows of `slots` whose logits are needed
};

// One pass: the state that its phases share. All workers run every method that takes a worker.
class Int8DFlashPass {
 public:
  Int8DFlashPass(const Int8DFlash& model, std::span<const BlockSpan> sequences, int threads);
  Int8DFlash::Blocks run();

 private:
  using Worker = ThreadTeam::Worker;
  void add_sequence(std::size_t index);
  void work(Worker& w);
  void read_context(Worker& w);
  void read_last(Worker& w);
  void embed(std::int64_t slot);
  void head(Worker& w);

  const Int8DFlash& m_;
  const DFlashConfig& c_;
  std::span<const BlockSpan> sequences_;
  Int8DFlash::Workspace& s_;
  Int8BlockPass& blocks_;
  int threads_;
  float *context_, *shifts_;
  k::Int8Rows features_{}, last_{};
  at::Tensor logits_, final_, states_;
};

Int8DFlashPass::Int8DFlashPass(const Int8DFlash& model, std::span<const BlockSpan> sequences,
                               int threads)
    : m_(model),
      c_(model.config_),
      sequences_(sequences),
      s_(*model.workspace_),
      blocks_(s_.blocks),
      threads_(threads) {
  blocks_.clear();
  s_.fresh.clear();
  s_.slots.clear();
  s_.drafting.clear();
  s_.first_fresh.clear();
  for (std::size_t l = 0; l < sequences.size(); ++l) add_sequence(l);
  const std::int64_t features = c_.features() * c_.hidden;
  blocks_.start(threads, k::rotated_width(features));
  const auto count = static_cast<std::int64_t>(c_.slot_state ? sequences.size() : 0);
  context_ = s_.context.room_for(static_cast<std::size_t>(blocks_.context() * c_.hidden));
  shifts_ = s_.shifts.room_for(static_cast<std::size_t>(count * c_.hidden));
  last_ = s_.last.room_for(count, c_.hidden);
  features_ = s_.features.room_for(blocks_.context(), features);
  const auto drafting = static_cast<std::int64_t>(s_.drafting.size());
  logits_ = s_.logits.take(drafting, c_.draft_vocab);
  final_ = s_.final.take(drafting, c_.hidden);
  states_ = s_.states.take(drafting, c_.slot_numbers());
}

void Int8DFlashPass::add_sequence(std::size_t index) {
  const BlockSpan& sequence = sequences_[index];
  KvCache& cache = cache_of(sequence);
  const std::int64_t length = cache.length(), start = length + sequence.fresh;
  const std::int64_t slots = sequence.drafts > 0 ? c_.block : 0;
  cache.reserve(sequence.fresh + slots);
  s_.first_fresh.push_back(static_cast<std::int64_t>(s_.fresh.size()));
  for (std::int64_t i = 0; i < sequence.fresh; ++i) {
    s_.fresh.push_back({index, i});
    blocks_.add_context({&cache.pages(), length + i, length + i});
  }
  for (std::int64_t i = 0; i < slots; ++i) {
    const std::int64_t draft = i - c_.first_drafting_slot();
    if (draft >= 0 && draft < sequence.drafts) {
      s_.drafting.push_back(static_cast<std::int64_t>(s_.slots.size()));
    }
    s_.slots.push_back({index, i});
    blocks_.add_full({&cache.pages(), start + i, start + i});
  }
  blocks_.add_sequence({&cache.pages(), start, slots, &m_.block_});
}

Int8DFlash::Blocks Int8DFlashPass::run() {
  ThreadTeam::instance().run(threads_, [this](Worker& w) { work(w); });
  // The slots' entries after the context are never read.
  for (const BlockSpan& sequence : sequences_) cache_of(sequence).advance(sequence.fresh);
  return {std::move(logits_), std::move(final_), std::move(states_)};
}

void Int8DFlashPass::work(Worker& w) {
  read_context(w);
  if (c_.slot_state) read_last(w);
  blocks_.each(w, blocks_.full(), [this](std::int64_t i) { embed(i); });
  for (std::size_t i = 0; i < m_.layers_.size(); ++i) {
    const LayerAttention& mask = c_.attention[i];
    const Int8Matrix& next = i + 1 < m_.layers_.size() ? m_.layers_[i + 1].qkv : m_.head_;
    blocks_.run(w, m_.layers_[i],
                {.index = static_cast<std::int64_t>(i),
                 .in_kind = static_cast<std::int64_t>(i),
                 .mask = {.window = mask.window, .groups = !mask.causal},
                 .next = next.first_panel(w)});
  }
  head(w);
}

// RMSNorm(fc X) of the fresh rows, quantised: the same input for the keys and values of all layers.
void Int8DFlashPass::read_context(Worker& w) {
  const std::int64_t width = c_.features() * c_.hidden;
  const k::Int8Rows features = m_.fc_.in_form(features_);
  const k::Int8Rows normed = m_.layers_.front().qkv.in_form(blocks_.input());
  blocks_.each(w, blocks_.context(), [&](std::int64_t r) {
    const auto& at = s_.fresh[static_cast<std::size_t>(r)];
    kernels().quantize_row(sequences_[at.sequence].features + at.index * width, width, features, r,
                           blocks_.scratch(w));
    blocks_.rotate(r);
  });
  if (blocks_.context() > 0) {
    m_.fc_.multiply(w, features, blocks_.context(), context_, c_.hidden, false);
  }
  blocks_.each(w, blocks_.context(), [&](std::int64_t r) {
    kernels().norm_quantize_row(context_ + r * c_.hidden, m_.hidden_norm_.values(),
                                static_cast<float>(m_.hidden_norm_.eps), c_.hidden, normed, r,
                                blocks_.scratch(w));
  });
}

// The newest context row's addition to the slots of its sequence.
void Int8DFlashPass::read_last(Worker& w) {
  const auto count = static_cast<std::int64_t>(sequences_.size());
  const k::Int8Rows newest = m_.slot_state_.in_form(last_);
  blocks_.each(w, count, [&](std::int64_t i) {
    const BlockSpan& sequence = sequences_[static_cast<std::size_t>(i)];
    std::vector<float>& last = context_of(sequence).last;
    if (sequence.fresh > 0) {
      const float* row =
          context_ + (s_.first_fresh[static_cast<std::size_t>(i)] + sequence.fresh - 1) * c_.hidden;
      last.assign(row, row + c_.hidden);
    }
    if (last.empty()) last.assign(static_cast<std::size_t>(c_.hidden), 0.0F);
    kernels().norm_quantize_row(last.data(), m_.hidden_norm_.values(),
                                static_cast<float>(m_.hidden_norm_.eps), c_.hidden, newest, i,
                                blocks_.scratch(w));
  });
  m_.slot_state_.multiply(w, newest, count, shifts_, c_.hidden, false);
}

void Int8DFlashPass::embed(std::int64_t slot) {
  const auto& at = s_.slots[static_cast<std::size_t>(slot)];
  blocks_.rotate(blocks_.context() + slot);
  float* h = blocks_.hidden(slot);
  if (at.index > 0 && m_.mask_.defined()) {
    std::copy_n(m_.mask_.const_data_ptr<float>(), c_.hidden, h);
  } else {
    const auto* table =
        reinterpret_cast<const std::uint16_t*>(m_.embedding_.const_data_ptr<at::BFloat16>());
    const std::int64_t id = at.index > 0 ? c_.mask_token : sequences_[at.sequence].anchor;
    kernels().widen_bf16(table + id * c_.hidden, c_.hidden, static_cast<float>(c_.embedding_scale),
                         h);
  }
  if (!c_.slot_state) return;
  const float* shift = shifts_ + static_cast<std::int64_t>(at.sequence) * c_.hidden;
  for (std::int64_t j = 0; j < c_.hidden; ++j) h[j] += shift[j];
}

void Int8DFlashPass::head(Worker& w) {
  const auto drafting = static_cast<std::int64_t>(s_.drafting.size());
  if (drafting == 0) return;
  float* final = final_.data_ptr<float>();
  k::Int8Rows x = m_.head_.in_form(blocks_.input());
  blocks_.each(w, drafting, [&](std::int64_t i) {
    float* out = final + i * c_.hidden;
    kernels().rms_norm_row(blocks_.hidden(s_.drafting[static_cast<std::size_t>(i)]),
                           m_.norm_.values(), static_cast<float>(m_.norm_.eps), c_.hidden, out);
    kernels().quantize_row(out, c_.hidden, x, i, blocks_.scratch(w));
  });
  float* logits = logits_.data_ptr<float>();
  x.far = false;  // one thread reads all logits, half of them its own
  m_.head_.multiply(w, x, drafting, logits, c_.draft_vocab, false);
  if (const std::int64_t numbers = c_.slot_numbers(); numbers > 0) {
    m_.states_.multiply(w, x, drafting, states_.data_ptr<float>(), numbers, false);
  }
  if (c_.output_multiplier == 1.0 && c_.final_softcap <= 0.0) return;
  const auto times = static_cast<float>(c_.output_multiplier);
  const auto cap = static_cast<float>(c_.final_softcap);
  blocks_.each(w, drafting * c_.draft_vocab, [&](std::int64_t i) {
    logits[i] *= times;
    if (cap > 0.0F) logits[i] = cap * std::tanh(logits[i] / cap);
  });
}

Int8DFlash::Int8DFlash(const DFlash& m)
    : DFlashPasses(m, Precision::kInt8),
      embedding_(huge_table(m.embedding, at::kBFloat16)),
      hidden_norm_(plain_values(m.hidden_norm)),
      norm_(plain_values(m.norm)),
      block_(RowPlan::of(m.config.block, {},
                         std::vector<std::int32_t>(static_cast<std::size_t>(m.config.block), 0))),
      workspace_(std::make_unique<Workspace>(Int8BlockPass(
          m.config, {.scale = 1.0 / std::sqrt(static_cast<double>(m.config.head_dim)),
                     .softcap = 0.0,
                     .ropes = {{.frequencies = inverse_frequencies(
                                    m.config.head_dim, m.config.rope_theta, m.config.rope_scaling),
                                .size = m.config.rope_scaling.size()}}}))) {
  if (m.mask_embedding.defined()) {
    mask_ = plain_values(m.mask_embedding) * config_.embedding_scale;
  }
  pack(m, m.config.weight_bits == 4 && fits_four_bits(m));
}

void Int8DFlash::pack(const DFlash& m, bool four_bits) {
  Arena arena(std::size_t{16} << 20);
  const auto matrix = [&](const at::Tensor& weight, const at::Tensor& bias = {}) {
    Linear l{.weight = weight, .bias = bias, .stored = {}};
    if (four_bits) l = in_four_bits(l);
    return pack_linear({&l}, nullptr, arena);
  };
  fc_ = matrix(m.fc);
  head_ = matrix(m.head);
  for (const TransformerBlock& l : m.layers) {
    layers_.push_back(Int8Block::pack(four_bits ? in_four_bits(l) : l, config_, arena));
  }
  if (m.slot_state.defined()) slot_state_ = matrix(m.slot_state);
  if (const Linear states = slot_projection(m); states.weight.defined()) {
    states_ = matrix(states.weight, states.bias);
  }
}

Int8DFlash::~Int8DFlash() = default;

std::unique_ptr<DFlashContext> Int8DFlash::make_context() const {
  return std::make_unique<PagedContext>(
      KvCache(KvPages({config_.layers, config_.kv_heads, config_.head_dim}, pool_)));
}

Int8DFlash::Blocks Int8DFlash::forward(std::span<const BlockSpan> sequences) const {
  const std::scoped_lock only(one_pass_);
  return Int8DFlashPass(*this, sequences, at::get_num_threads()).run();
}

std::int64_t Int8DFlash::weight_bytes() const noexcept {
  std::int64_t bytes = fc_.bytes() + slot_state_.bytes() + head_.bytes() + states_.bytes();
  for (const Int8Block& l : layers_) bytes += l.bytes();
  return bytes;
}

}  // namespace forerun
