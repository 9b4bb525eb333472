#include "forerun/models/dflash/int8_dflash.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {

namespace k = avx512;

namespace {

RmsNorm norm_of(const at::Tensor& weight, double eps) {
  return {weight.detach().to(at::kFloat).contiguous(), eps};
}

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
  explicit Workspace(PagedAttention a) : attention(std::move(a)) {}

  PagedAttention attention;
  AlignedBuffer<float> hidden, context, kv, q, gates, scratch, rotations, shifts;
  // Rows of the context (the same for all layers), followed by those of the slots.
  Int8Activations features, input, attended, gated, last;
  std::vector<PagedAttention::Sequence> sequences;
  struct Row {
    std::size_t sequence;
    std::int64_t position;
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
  void rotate(std::int64_t row, std::int64_t position);
  void attention(Worker& w, std::int64_t index);
  void place(std::int64_t row, std::int64_t kv_head, std::int64_t index);
  void head(Worker& w);
  const Int8DFlash::Workspace::Row& row(std::int64_t r) const {
    return r < fresh_ ? s_.fresh[static_cast<std::size_t>(r)]
                      : s_.slots[static_cast<std::size_t>(r - fresh_)];
  }
  float* hidden(std::int64_t slot) const { return hidden_ + slot * c_.hidden; }
  float* scratch(const Worker& w) const { return scratch_ + w.index() * scratch_size_; }
  template <class Work>
  static void each(Worker& w, std::int64_t items, Work work) {
    const std::int64_t grain = std::max<std::int64_t>(1, items / (2 * w.count()));
    w.each(items, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  }

  const Int8DFlash& m_;
  const DFlashConfig& c_;
  std::span<const BlockSpan> sequences_;
  Int8DFlash::Workspace& s_;
  int threads_;
  std::int64_t fresh_ = 0, slots_ = 0, inner_, kv_width_, scratch_size_;
  float *hidden_, *context_, *kv_, *q_, *scratch_, *cos_, *sin_, *shifts_;
  k::Int8Rows features_{}, input_{}, attended_{}, last_{};
  Int8Mlp::Gated gated_{};
  at::Tensor logits_, final_;
};

Int8DFlashPass::Int8DFlashPass(const Int8DFlash& model, std::span<const BlockSpan> sequences,
                               int threads)
    : m_(model),
      c_(model.config_),
      sequences_(sequences),
      s_(*model.workspace_),
      threads_(threads) {
  s_.sequences.clear();
  s_.fresh.clear();
  s_.slots.clear();
  s_.drafting.clear();
  s_.first_fresh.clear();
  for (std::size_t l = 0; l < sequences.size(); ++l) add_sequence(l);
  fresh_ = static_cast<std::int64_t>(s_.fresh.size());
  slots_ = static_cast<std::int64_t>(s_.slots.size());
  inner_ = c_.heads * c_.head_dim;
  kv_width_ = 2 * c_.kv_heads * c_.head_dim;
  const std::int64_t all = fresh_ + slots_;
  const auto room = [](AlignedBuffer<float>& b, std::int64_t n) {
    return b.room_for(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)));
  };
  const std::int64_t features = c_.features() * c_.hidden;
  scratch_size_ = std::max({m_.layers_.front().mlp.scratch_size(), k::rotated_width(inner_),
                            k::rotated_width(c_.hidden), k::rotated_width(features)});
  hidden_ = room(s_.hidden, slots_ * c_.hidden);
  context_ = room(s_.context, fresh_ * c_.hidden);
  kv_ = room(s_.kv, all * kv_width_);
  q_ = room(s_.q, slots_ * inner_);
  scratch_ = room(s_.scratch, threads * scratch_size_);
  const auto count = static_cast<std::int64_t>(sequences.size());
  shifts_ = room(s_.shifts, m_.slot_state_.bytes() > 0 ? count * c_.hidden : 0);
  last_ = s_.last.room_for(m_.slot_state_.bytes() > 0 ? count : 0, c_.hidden);
  const std::int64_t angles = all * (c_.head_dim / 2);
  cos_ = room(s_.rotations, 2 * angles);
  sin_ = cos_ + angles;
  features_ = s_.features.room_for(fresh_, features);
  input_ = s_.input.room_for(all, c_.hidden);
  attended_ = s_.attended.room_for(slots_, inner_);
  gated_ = {room(s_.gates, slots_ * c_.intermediate), s_.gated.room_for(slots_, c_.intermediate)};
  const auto drafting = static_cast<std::int64_t>(s_.drafting.size());
  logits_ = at::empty({drafting, c_.draft_vocab}, at::kFloat);
  final_ = at::empty({drafting, c_.hidden}, at::kFloat);
  s_.attention.plan(s_.sequences, threads);
}

void Int8DFlashPass::add_sequence(std::size_t index) {
  const BlockSpan& sequence = sequences_[index];
  const std::int64_t length = cache_of(sequence).length();
  const std::int64_t slots = sequence.drafts > 0 ? c_.block : 0;
  cache_of(sequence).reserve(sequence.fresh + slots);
  s_.first_fresh.push_back(static_cast<std::int64_t>(s_.fresh.size()));
  for (std::int64_t i = 0; i < sequence.fresh; ++i) s_.fresh.push_back({index, length + i, i});
  for (std::int64_t i = 0; i < slots; ++i) {
    const std::int64_t draft = i - c_.first_drafting_slot();
    if (draft >= 0 && draft < sequence.drafts) {
      s_.drafting.push_back(static_cast<std::int64_t>(s_.slots.size()));
    }
    s_.slots.push_back({index, length + sequence.fresh + i, i});
  }
  s_.sequences.push_back({&cache_of(sequence).pages(), length + sequence.fresh, slots, &m_.block_});
}

Int8DFlash::Blocks Int8DFlashPass::run() {
  constexpr std::int64_t kLayerPhases = 11, kOtherPhases = 9;
  const auto phases = static_cast<std::size_t>(c_.layers * kLayerPhases + kOtherPhases);
  ThreadTeam::instance().run(threads_, phases, [this](Worker& w) { work(w); });
  // The slots' entries after the context are never read.
  for (const BlockSpan& sequence : sequences_) cache_of(sequence).advance(sequence.fresh);
  return {std::move(logits_), std::move(final_)};
}

void Int8DFlashPass::work(Worker& w) {
  read_context(w);
  if (c_.slot_state) read_last(w);
  each(w, slots_, [this](std::int64_t i) { embed(i); });
  for (std::int64_t i = 0; i < c_.layers; ++i) {
    attention(w, i);
    if (slots_ == 0) continue;
    const Int8DFlash::Layer& l = m_.layers_[static_cast<std::size_t>(i)];
    const k::Int8Rows x = k::rows_from(input_, fresh_);
    each(w, slots_, [&](std::int64_t s) {
      k::norm_quantize_row(hidden(s), l.mlp_norm.values(), static_cast<float>(l.mlp_norm.eps),
                           c_.hidden, x, s, scratch(w));
    });
    l.mlp.run(w, x, gated_, slots_, scratch(w), hidden_, c_.hidden, true);
  }
  head(w);
}

// RMSNorm(fc X) of the fresh rows, quantised: the same input for the keys and values of all layers.
void Int8DFlashPass::read_context(Worker& w) {
  const std::int64_t width = c_.features() * c_.hidden;
  each(w, fresh_, [&](std::int64_t r) {
    const auto& at = s_.fresh[static_cast<std::size_t>(r)];
    k::quantize_row(sequences_[at.sequence].features + at.index * width, width, features_, r,
                    scratch(w));
    rotate(r, at.position);
  });
  if (fresh_ > 0) m_.fc_.multiply(w, features_, fresh_, context_, c_.hidden, false);
  each(w, fresh_, [&](std::int64_t r) {
    k::norm_quantize_row(context_ + r * c_.hidden, m_.hidden_norm_.values(),
                         static_cast<float>(m_.hidden_norm_.eps), c_.hidden, input_, r, scratch(w));
  });
}

// The newest context row's addition to the slots of its sequence.
void Int8DFlashPass::read_last(Worker& w) {
  const auto count = static_cast<std::int64_t>(sequences_.size());
  each(w, count, [&](std::int64_t i) {
    const BlockSpan& sequence = sequences_[static_cast<std::size_t>(i)];
    std::vector<float>& last = context_of(sequence).last;
    if (sequence.fresh > 0) {
      const float* row =
          context_ + (s_.first_fresh[static_cast<std::size_t>(i)] + sequence.fresh - 1) * c_.hidden;
      last.assign(row, row + c_.hidden);
    }
    if (last.empty()) last.assign(static_cast<std::size_t>(c_.hidden), 0.0F);
    k::norm_quantize_row(last.data(), m_.hidden_norm_.values(),
                         static_cast<float>(m_.hidden_norm_.eps), c_.hidden, last_, i, scratch(w));
  });
  m_.slot_state_.multiply(w, last_, count, shifts_, c_.hidden, false);
}

void Int8DFlashPass::rotate(std::int64_t r, std::int64_t position) {
  const std::int64_t half = c_.head_dim / 2;
  for (std::int64_t j = 0; j < half; ++j) {
    const float angle = static_cast<float>(position) * m_.frequencies_[static_cast<std::size_t>(j)];
    cos_[r * half + j] = std::cos(angle);
    sin_[r * half + j] = std::sin(angle);
  }
}

void Int8DFlashPass::embed(std::int64_t slot) {
  const auto& at = s_.slots[static_cast<std::size_t>(slot)];
  rotate(fresh_ + slot, at.position);
  float* h = hidden(slot);
  if (at.index > 0 && m_.mask_.defined()) {
    std::copy_n(m_.mask_.const_data_ptr<float>(), c_.hidden, h);
  } else {
    const auto* table =
        reinterpret_cast<const std::uint16_t*>(m_.embedding_.const_data_ptr<at::BFloat16>());
    const std::int64_t id = at.index > 0 ? c_.mask_token : sequences_[at.sequence].anchor;
    k::widen_bf16(table + id * c_.hidden, c_.hidden, static_cast<float>(c_.embedding_scale), h);
  }
  if (!c_.slot_state) return;
  const float* shift = shifts_ + static_cast<std::int64_t>(at.sequence) * c_.hidden;
  for (std::int64_t j = 0; j < c_.hidden; ++j) h[j] += shift[j];
}

void Int8DFlashPass::attention(Worker& w, std::int64_t index) {
  const Int8DFlash::Layer& l = m_.layers_[static_cast<std::size_t>(index)];
  const k::Int8Rows x = k::rows_from(input_, fresh_);
  each(w, slots_, [&](std::int64_t s) {
    k::norm_quantize_row(hidden(s), l.attention_norm.values(),
                         static_cast<float>(l.attention_norm.eps), c_.hidden, x, s, scratch(w));
  });
  const std::int64_t all = fresh_ + slots_;
  l.kv.multiply(w, input_, all, kv_, kv_width_, false);
  if (slots_ > 0) l.q.multiply(w, x, slots_, q_, inner_, false);
  each(w, all * c_.kv_heads,
       [&](std::int64_t i) { place(i / c_.kv_heads, i % c_.kv_heads, index); });
  if (slots_ == 0) return;
  const LayerAttention& mask = c_.attention[static_cast<std::size_t>(index)];
  s_.attention.attend(w, index, {.window = mask.window, .groups = !mask.causal});
  each(w, slots_, [&](std::int64_t s) {
    float* out = scratch(w);
    for (std::int64_t h = 0; h < c_.heads; ++h) s_.attention.output(s, h, out + h * c_.head_dim);
    k::quantize_row(out, inner_, attended_, s, out);
  });
  l.output.multiply(w, attended_, slots_, hidden_, c_.hidden, true);
}

// Keys and values of a row, and the queries of a slot, in the layout of attention.
void Int8DFlashPass::place(std::int64_t r, std::int64_t kv_head, std::int64_t index) {
  const Int8DFlash::Layer& l = m_.layers_[static_cast<std::size_t>(index)];
  const std::int64_t dim = c_.head_dim, half = dim / 2, group = c_.heads / c_.kv_heads;
  const auto turned = [&](float* x, const RmsNorm& norm) {
    k::rms_norm_row(x, norm.values(), static_cast<float>(norm.eps), dim, x);
    k::rotate_row(x, cos_ + r * half, sin_ + r * half, half);
    return x;
  };
  const auto& at = row(r);
  float* kv = kv_ + r * kv_width_;
  const float* keys = turned(kv + kv_head * dim, l.k_norm);
  cache_of(sequences_[at.sequence])
      .pages()
      .write(index, kv_head, at.position, keys, kv + (c_.kv_heads + kv_head) * dim);
  if (r < fresh_) return;
  const std::int64_t slot = r - fresh_;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const float* q = turned(q_ + slot * inner_ + h * dim, l.q_norm);
    s_.attention.set_query(slot, h, q, scale);
  }
}

void Int8DFlashPass::head(Worker& w) {
  const auto drafting = static_cast<std::int64_t>(s_.drafting.size());
  if (drafting == 0) return;
  float* final = final_.data_ptr<float>();
  each(w, drafting, [&](std::int64_t i) {
    float* out = final + i * c_.hidden;
    k::rms_norm_row(hidden(s_.drafting[static_cast<std::size_t>(i)]), m_.norm_.values(),
                    static_cast<float>(m_.norm_.eps), c_.hidden, out);
    k::quantize_row(out, c_.hidden, input_, i, scratch(w));
  });
  float* logits = logits_.data_ptr<float>();
  m_.head_.multiply(w, input_, drafting, logits, c_.draft_vocab, false);
  if (c_.output_multiplier == 1.0 && c_.final_softcap <= 0.0) return;
  const auto times = static_cast<float>(c_.output_multiplier);
  const auto cap = static_cast<float>(c_.final_softcap);
  each(w, drafting * c_.draft_vocab, [&](std::int64_t i) {
    logits[i] *= times;
    if (cap > 0.0F) logits[i] = cap * std::tanh(logits[i] / cap);
  });
}

Int8DFlash::Int8DFlash(const DFlash& m)
    : DFlashPasses(m),
      embedding_(m.embedding.to(at::kBFloat16).contiguous()),
      hidden_norm_(norm_of(m.hidden_norm, m.config.norm_eps)),
      norm_(norm_of(m.norm, m.config.norm_eps)),
      block_(RowPlan::of(m.config.block, {},
                         std::vector<std::int32_t>(static_cast<std::size_t>(m.config.block), 0))),
      workspace_(std::make_unique<Workspace>(PagedAttention({.heads = m.config.heads,
                                                             .kv_heads = m.config.kv_heads,
                                                             .head_dim = m.config.head_dim,
                                                             .softcap = 0.0}))) {
  Arena arena(std::size_t{16} << 20);
  const auto matrix = [&](const at::Tensor& weight) {
    return Int8Matrix::pack(weight.detach().to(at::kFloat).contiguous(), {}, arena);
  };
  const auto linear = [&](const at::Tensor& weight) {
    return Linear{weight.detach().to(at::kFloat).contiguous(), {}};
  };
  const double eps = config_.norm_eps;
  fc_ = matrix(m.fc);
  head_ = matrix(m.head);
  for (const DFlashLayer& l : m.layers) {
    layers_.push_back({.attention_norm = norm_of(l.attention_norm, eps),
                       .mlp_norm = norm_of(l.mlp_norm, eps),
                       .q_norm = norm_of(l.q_norm, eps),
                       .k_norm = norm_of(l.k_norm, eps),
                       .q = matrix(l.q),
                       .kv = matrix(at::cat({l.k, l.v})),
                       .output = matrix(l.o),
                       .mlp = Int8Mlp::pack(linear(at::cat({l.gate, l.up})), linear(l.down),
                                            Activation::kSilu, arena)});
  }
  if (m.mask_embedding.defined()) {
    mask_ = m.mask_embedding.detach().to(at::kFloat).contiguous() * config_.embedding_scale;
  }
  if (m.slot_state.defined()) slot_state_ = matrix(m.slot_state);
  if (m.markov_w2.defined()) markov_w2_ = matrix(m.markov_w2);
  frequencies_ = inverse_frequencies({.head_dim = config_.head_dim,
                                      .rope_theta = config_.rope_theta,
                                      .rope_scaling = config_.rope_scaling},
                                     false);
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

void Int8DFlash::add_markov(Token previous, std::span<float> logits) const {
  // A few thousand products of one short row: too few to wake other threads.
  thread_local Int8Activations activations;
  thread_local AlignedBuffer<float> work;
  const k::Int8Rows x = activations.room_for(1, config_.markov_rank);
  k::quantize_row(markov_w1_.const_data_ptr<float>() + previous * config_.markov_rank,
                  config_.markov_rank, x, 0, work.room_for(static_cast<std::size_t>(x.width)));
  markov_w2_.multiply(0, markov_w2_.panels(), x, 1, logits.data(), config_.draft_vocab, true);
}

std::int64_t Int8DFlash::weight_bytes() const noexcept {
  std::int64_t bytes = fc_.bytes() + slot_state_.bytes() + head_.bytes();
  for (const Layer& l : layers_) {
    bytes += l.q.bytes() + l.kv.bytes() + l.output.bytes() + l.mlp.bytes();
  }
  return bytes;
}

}  // namespace forerun
