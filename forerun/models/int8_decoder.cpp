#include "forerun/models/int8_decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {

namespace k = avx512;

Int8Layer Int8Layer::pack(const DecoderLayer& l, Activation activation, Arena& arena) {
  Int8Layer out{.attention_norm = l.attention_norm,
                .mlp_norm = l.mlp_norm,
                .attention_post_norm = l.attention_post_norm,
                .mlp_post_norm = l.mlp_post_norm,
                .q_norm = l.q_norm,
                .k_norm = l.k_norm};
  out.qkv = Int8Matrix::pack(l.qkv.weight, l.qkv.bias, arena);
  out.output = Int8Matrix::pack(l.output.weight, l.output.bias, arena);
  out.mlp = Int8Mlp::pack(l.gate_up, l.down, activation, arena);
  return out;
}

struct Int8Workspace {
  explicit Int8Workspace(PagedAttention a) : attention(std::move(a)) {}

  PagedAttention attention;
  AlignedBuffer<float> hidden, qkv, branch, gates, scratch, rotations;
  Int8Activations input, gated;
  std::vector<PagedAttention::Sequence> sequences;
  std::vector<std::int64_t> scored;
  struct Row {
    std::size_t sequence;
    std::int64_t index;  // of the sequence's rows
    std::int64_t position, place;
  };
  std::vector<Row> rows;
  std::vector<at::Tensor> logits;  // returned before; free again when no one else holds them

  // a view of it is still held
  at::Tensor free_logits(std::int64_t n, std::int64_t vocab) {
    constexpr std::size_t kKept = 16;
    for (at::Tensor& t : logits) {
      if (t.storage().use_count() > 1) continue;  // a view of the returned memory
      if (t.size(0) < n) t = at::empty({n, vocab}, at::kFloat);
      return t.narrow(0, 0, n);
    }
    const at::Tensor fresh = at::empty({n, vocab}, at::kFloat);
    if (logits.size() < kKept) logits.push_back(fresh);
    return fresh.narrow(0, 0, n);
  }
};

// One pass: the state that its phases share. All workers run every method that takes a worker.
class Int8Pass {
 public:
  Int8Pass(const Int8Decoder& model, std::span<const SequenceSpan> sequences,
           std::span<RowPlan> plans, std::span<const std::int64_t> kept, int threads);
  at::Tensor run();

 private:
  using Worker = ThreadTeam::Worker;
  void add_sequence(std::size_t index);
  void work(Worker& w);
  void embed(std::int64_t row);
  // Copies a row of the residual stream after block `index` to its sequence, if needed.
  void keep_state(std::int64_t row, std::int64_t index) const;
  void layer(Worker& w, std::int64_t index);
  void attention(Worker& w, std::int64_t index);
  void mlp(Worker& w, std::int64_t index);
  void place(std::int64_t row, std::int64_t kv_head, std::int64_t index);
  k::Int8Rows input(std::int64_t width) const;
  void head(Worker& w);
  float* hidden(std::int64_t row) const { return hidden_ + row * c_.hidden; }
  float* scratch(const Worker& w) const { return scratch_ + w.index() * scratch_size_; }
  // Adds `branch` to the hidden rows, normalised for Gemma.
  void add_branch(Worker& w, const RmsNorm& post);
  // A phase over the rows of the pass.
  template <class Work>
  void each_row(Worker& w, Work work) {
    each_of(w, rows_, work);
  }
  template <class Work>
  static void each_of(Worker& w, std::int64_t items, Work work) {
    const std::int64_t grain = std::max<std::int64_t>(1, items / (2 * w.count()));
    w.each(items, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  }

  const Int8Decoder& m_;
  const DecoderConfig& c_;
  std::span<const SequenceSpan> sequences_;
  std::span<RowPlan> plans_;
  std::span<const std::int64_t> kept_;
  Int8Workspace& s_;
  int threads_;
  std::int64_t rows_ = 0, qkv_width_, scratch_size_;
  float *hidden_, *qkv_, *branch_, *scratch_, *rotations_;
  float *cos_, *sin_, *local_cos_, *local_sin_;
  k::Int8Rows input_{};
  Int8Mlp::Gated gated_{};
  at::Tensor logits_;
};

Int8Pass::Int8Pass(const Int8Decoder& model, std::span<const SequenceSpan> sequences,
                   std::span<RowPlan> plans, std::span<const std::int64_t> kept, int threads)
    : m_(model),
      c_(model.config_),
      sequences_(sequences),
      plans_(plans),
      kept_(kept),
      s_(*model.workspace_),
      threads_(threads) {
  s_.sequences.clear();
  s_.rows.clear();
  s_.scored.clear();
  for (std::size_t l = 0; l < sequences.size(); ++l) add_sequence(l);
  rows_ = static_cast<std::int64_t>(s_.rows.size());
  qkv_width_ = (c_.heads + 2 * c_.kv_heads) * c_.head_dim;
  const std::int64_t inner = c_.heads * c_.head_dim;
  scratch_size_ = std::max({m_.layers_.front().mlp.scratch_size(), k::rotated_width(c_.hidden),
                            k::rotated_width(inner)});
  const auto room = [&](AlignedBuffer<float>& b, std::int64_t n) {
    return b.room_for(static_cast<std::size_t>(n));
  };
  hidden_ = room(s_.hidden, rows_ * c_.hidden);
  qkv_ = room(s_.qkv, rows_ * qkv_width_);
  branch_ = c_.gemma() ? room(s_.branch, rows_ * c_.hidden) : nullptr;
  scratch_ = room(s_.scratch, threads * scratch_size_);
  const std::int64_t angles = rows_ * (c_.head_dim / 2);
  rotations_ = room(s_.rotations, 4 * angles);
  cos_ = rotations_;
  sin_ = cos_ + angles;
  local_cos_ = sin_ + angles;
  local_sin_ = local_cos_ + angles;
  input_ = s_.input.room_for(rows_, std::max(c_.hidden, inner));
  gated_ = {room(s_.gates, rows_ * c_.intermediate), s_.gated.room_for(rows_, c_.intermediate)};
  logits_ = s_.free_logits(static_cast<std::int64_t>(s_.scored.size()), c_.vocab);
  s_.attention.plan(s_.sequences, threads);
}

void Int8Pass::add_sequence(std::size_t index) {
  const SequenceSpan& sequence = sequences_[index];
  const RowPlan& plan = plans_[index];
  const std::int64_t n = plan.rows(), length = sequence.cache->length();
  sequence.cache->reserve(plan);
  const KvPages& pages = sequence.cache->pages();
  s_.sequences.push_back({&pages, length, n, &plan});
  const auto first = static_cast<std::int64_t>(s_.rows.size());
  for (std::int64_t i = 0; i < n; ++i) {
    if (i >= n - sequence.scored) s_.scored.push_back(first + i);
    const std::int64_t position = length + plan.depth(i), branch = i - plan.straight();
    s_.rows.push_back({index, i, position, branch < 0 ? position : pages.capacity() + branch});
  }
  for (const std::int32_t row : sequence.scored_rows) s_.scored.push_back(first + row);
}

at::Tensor Int8Pass::run() {
  constexpr std::int64_t kLayerPhases = 12, kOtherPhases = 5;
  const auto phases = static_cast<std::size_t>(c_.layers * kLayerPhases + kOtherPhases);
  ThreadTeam::instance().run(threads_, phases, [this](Worker& w) { work(w); });
  for (std::size_t l = 0; l < sequences_.size(); ++l) {
    sequences_[l].cache->advance(std::move(plans_[l]));
  }
  return std::move(logits_);
}

void Int8Pass::work(Worker& w) {
  each_row(w, [this](std::int64_t r) { embed(r); });
  for (std::int64_t i = 0; i < c_.layers; ++i) layer(w, i);
  if (!kept_.empty()) each_row(w, [this](std::int64_t r) { keep_state(r, c_.layers - 1); });
  head(w);
}

void Int8Pass::keep_state(std::int64_t r, std::int64_t index) const {
  const Int8Workspace::Row& row = s_.rows[static_cast<std::size_t>(r)];
  const SequenceSpan& sequence = sequences_[row.sequence];
  if (sequence.states == nullptr) return;
  const auto all = static_cast<std::int64_t>(kept_.size());
  for (std::int64_t j = 0; j < all; ++j) {
    if (kept_[static_cast<std::size_t>(j)] != index) continue;
    std::copy_n(hidden(r), c_.hidden, sequence.states + (row.index * all + j) * c_.hidden);
  }
}

void Int8Pass::embed(std::int64_t r) {
  const Int8Workspace::Row& row = s_.rows[static_cast<std::size_t>(r)];
  const SequenceSpan& sequence = sequences_[row.sequence];
  if (sequence.embeddings.empty()) {
    const auto* table =
        reinterpret_cast<const std::uint16_t*>(m_.embedding_.const_data_ptr<at::BFloat16>());
    k::widen_bf16(table + sequence.tokens[static_cast<std::size_t>(row.index)] * c_.hidden,
                  c_.hidden, static_cast<float>(c_.embedding_scale), hidden(r));
  } else {
    std::copy_n(sequence.embeddings.data() + row.index * c_.hidden, c_.hidden, hidden(r));
  }
  const std::int64_t half = c_.head_dim / 2;
  const auto rotate = [&](const std::vector<float>& frequencies, float* cos, float* sin) {
    for (std::int64_t j = 0; j < half; ++j) {
      const float angle =
          static_cast<float>(row.position) * frequencies[static_cast<std::size_t>(j)];
      cos[r * half + j] = std::cos(angle);
      sin[r * half + j] = std::sin(angle);
    }
  };
  rotate(m_.frequencies_, cos_, sin_);
  if (c_.window > 0) rotate(m_.local_frequencies_, local_cos_, local_sin_);
}

void Int8Pass::add_branch(Worker& w, const RmsNorm& post) {
  if (!post.defined()) return;
  each_row(w, [&](std::int64_t r) {
    float* x = branch_ + r * c_.hidden;
    k::rms_norm_row(x, post.values(), static_cast<float>(post.eps), c_.hidden, x);
    k::add_row(x, c_.hidden, hidden(r));
  });
}

void Int8Pass::layer(Worker& w, std::int64_t index) {
  const Int8Layer& l = m_.layers_[static_cast<std::size_t>(index)];
  attention(w, index);
  add_branch(w, l.attention_post_norm);
  mlp(w, index);
  add_branch(w, l.mlp_post_norm);
}

k::Int8Rows Int8Pass::input(std::int64_t width) const {
  k::Int8Rows x = input_;
  x.width = k::rotated_width(width);
  return x;
}

void Int8Pass::attention(Worker& w, std::int64_t index) {
  const Int8Layer& l = m_.layers_[static_cast<std::size_t>(index)];
  const k::Int8Rows x = input(c_.hidden);
  each_row(w, [&](std::int64_t r) {
    if (!kept_.empty()) keep_state(r, index - 1);
    k::norm_quantize_row(hidden(r), l.attention_norm.values(),
                         static_cast<float>(l.attention_norm.eps), c_.hidden, x, r, scratch(w));
  });
  l.qkv.multiply(w, x, rows_, qkv_, qkv_width_, false, l.output.first_panel(w));
  each_of(w, rows_ * c_.kv_heads,
          [&](std::int64_t i) { place(i / c_.kv_heads, i % c_.kv_heads, index); });
  const bool sliding = c_.sliding[static_cast<std::size_t>(index)];
  s_.attention.attend(w, index, {.window = sliding ? c_.window : 0});
  const std::int64_t inner = c_.heads * c_.head_dim;
  const k::Int8Rows attended = input(inner);
  each_row(w, [&](std::int64_t r) {
    float* row = scratch(w);
    for (std::int64_t h = 0; h < c_.heads; ++h) s_.attention.output(r, h, row + h * c_.head_dim);
    k::quantize_row(row, inner, attended, r, row);
  });
  const bool post = l.attention_post_norm.defined();
  l.output.multiply(w, attended, rows_, post ? branch_ : hidden_, c_.hidden, !post,
                    l.mlp.first_panel(w));
}

// Queries, keys and values of a new row in the layout of attention: those of one key head.
void Int8Pass::place(std::int64_t row, std::int64_t kv_head, std::int64_t index) {
  const Int8Layer& l = m_.layers_[static_cast<std::size_t>(index)];
  const bool sliding = c_.sliding[static_cast<std::size_t>(index)];
  const std::int64_t dim = c_.head_dim, half = dim / 2, group = c_.heads / c_.kv_heads;
  const float* cos = (sliding ? local_cos_ : cos_) + row * half;
  const float* sin = (sliding ? local_sin_ : sin_) + row * half;
  float* qkv = qkv_ + row * qkv_width_;
  const auto turned = [&](float* x, const RmsNorm& norm) {
    if (norm.defined()) {
      k::rms_norm_row(x, norm.values(), static_cast<float>(norm.eps), dim, x);
    }
    k::rotate_row(x, cos, sin, half);
    return x;
  };
  for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const float* q = turned(qkv + h * dim, l.q_norm);
    s_.attention.set_query(row, h, q, static_cast<float>(c_.query_scale));
  }
  const Int8Workspace::Row& at = s_.rows[static_cast<std::size_t>(row)];
  const float* keys = turned(qkv + (c_.heads + kv_head) * dim, l.k_norm);
  sequences_[at.sequence].cache->pages().write(index, kv_head, at.place, keys,
                                               qkv + (c_.heads + c_.kv_heads + kv_head) * dim);
}

void Int8Pass::mlp(Worker& w, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  const Int8Layer& l = m_.layers_[i];
  const Int8Matrix& next = i + 1 < m_.layers_.size() ? m_.layers_[i + 1].qkv : m_.head_;
  const k::Int8Rows x = input(c_.hidden);
  each_row(w, [&](std::int64_t r) {
    k::norm_quantize_row(hidden(r), l.mlp_norm.values(), static_cast<float>(l.mlp_norm.eps),
                         c_.hidden, x, r, scratch(w));
  });
  const bool post = l.mlp_post_norm.defined();
  l.mlp.run(w, x, gated_, rows_, scratch(w), post ? branch_ : hidden_, c_.hidden, !post,
            next.first_panel(w));
}

void Int8Pass::head(Worker& w) {
  const auto scored = static_cast<std::int64_t>(s_.scored.size());
  if (scored == 0) return;
  const k::Int8Rows x = input(c_.hidden);
  each_of(w, scored, [&](std::int64_t i) {
    k::norm_quantize_row(hidden(s_.scored[static_cast<std::size_t>(i)]), m_.final_norm_.values(),
                         static_cast<float>(m_.final_norm_.eps), c_.hidden, x, i, scratch(w));
  });
  float* out = logits_.data_ptr<float>();
  m_.head_.multiply(w, x, scored, out, c_.vocab, false);
  if (c_.logit_softcap <= 0.0) return;
  const auto cap = static_cast<float>(c_.logit_softcap);
  each_of(w, scored * c_.vocab, [&](std::int64_t i) { out[i] = cap * std::tanh(out[i] / cap); });
}

Int8Decoder::Int8Decoder(const DecoderConfig& config, at::Tensor embedding,
                         std::vector<Int8Layer> layers, RmsNorm final_norm, Int8Matrix head)
    : config_(config),
      embedding_(std::move(embedding)),
      layers_(std::move(layers)),
      final_norm_(std::move(final_norm)),
      head_(std::move(head)),
      frequencies_(inverse_frequencies(config, false)),
      workspace_(
          std::make_unique<Int8Workspace>(PagedAttention({.heads = config.heads,
                                                          .kv_heads = config.kv_heads,
                                                          .head_dim = config.head_dim,
                                                          .softcap = config.attention_softcap}))) {
  if (config.window > 0) local_frequencies_ = inverse_frequencies(config, true);
}

Int8Decoder::~Int8Decoder() = default;

KvCache Int8Decoder::make_cache(std::shared_ptr<KvPool> pool) const {
  return KvCache(KvPages({config_.layers, config_.kv_heads, config_.head_dim}, std::move(pool)));
}

at::Tensor Int8Decoder::forward(std::span<const SequenceSpan> sequences, std::span<RowPlan> plans,
                                std::span<const std::int64_t> kept) const {
  const std::scoped_lock only(one_pass_);
  return Int8Pass(*this, sequences, plans, kept, at::get_num_threads()).run();
}

std::int64_t Int8Decoder::weight_bytes() const noexcept {
  std::int64_t bytes = head_.bytes();
  for (const Int8Layer& l : layers_) {
    bytes += l.qkv.bytes() + l.output.bytes() + l.mlp.bytes();
  }
  return bytes;
}

}  // namespace forerun
