#include "forerun/models/int8_decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/models/gated_lora/gated_lora.h"
#include "forerun/models/greedy_head.h"
#include "forerun/tensor/reused_rows.h"

namespace forerun {

namespace k = kernel;

struct Int8Workspace {
  explicit Int8Workspace(Int8BlockPass b) : blocks(std::move(b)) {}

  Int8BlockPass blocks;
  GreedyHead greedy;
  std::vector<std::int64_t> scored;
  struct Row {
    std::size_t sequence;
    std::int64_t index;  // of the sequence's rows
  };
  std::vector<Row> rows;
  ReusedRows logits;
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
  void add_conditions(const SequenceSpan& sequence, const RowPlan& plan, std::int64_t first);
  void work(Worker& w);
  void embed(std::int64_t row);
  // Copies a row of the residual stream after block `index` to its sequence, if needed.
  void keep_state(std::int64_t row, std::int64_t index) const;
  void head(Worker& w);

  const Int8Decoder& m_;
  const DecoderConfig& c_;
  std::span<const SequenceSpan> sequences_;
  std::span<RowPlan> plans_;
  std::span<const std::int64_t> kept_;
  Int8Workspace& s_;
  Int8BlockPass& blocks_;
  int threads_;
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
      blocks_(s_.blocks),
      threads_(threads) {
  blocks_.clear();
  s_.rows.clear();
  s_.scored.clear();
  s_.greedy.clear();
  // All memory first: of recurrent layers a pass that has begun cannot be given up.
  for (std::size_t l = 0; l < sequences.size(); ++l) sequences[l].cache->reserve(plans[l]);
  for (std::size_t l = 0; l < sequences.size(); ++l) add_sequence(l);
  blocks_.start(threads);
  s_.greedy.start(m_.head_, threads);
  logits_ = s_.logits.take(static_cast<std::int64_t>(s_.scored.size()), c_.vocab);
}

void Int8Pass::add_sequence(std::size_t index) {
  const SequenceSpan& sequence = sequences_[index];
  const RowPlan& plan = plans_[index];
  const std::int64_t n = plan.rows(), length = sequence.cache->length();
  KvPages& pages = sequence.cache->pages();
  blocks_.add_sequence({&pages, length, n, &plan});
  if (!c_.recurrent.none()) blocks_.recurrent().add_sequence(sequence.cache->recurrent(), &plan);
  const auto first = static_cast<std::int64_t>(s_.rows.size());
  for (std::int64_t i = 0; i < n; ++i) {
    if (i >= n - sequence.scored) s_.scored.push_back(first + i);
    const std::int64_t position = length + plan.depth(i), branch = i - plan.straight();
    blocks_.add_full({&pages, position, branch < 0 ? position : pages.capacity() + branch});
    s_.rows.push_back({index, i});
  }
  for (const std::int32_t row : sequence.scored_rows) s_.scored.push_back(first + row);
  add_conditions(sequence, plan, first);
  const bool adapts = !sequence.masks.empty() && sequence.adapters->adapts();
  for (std::size_t i = 0; adapts && i < sequence.masks.size();) {  // runs of neighbours
    std::size_t end = i + 1;
    while (end < sequence.masks.size() && sequence.masks[end] == sequence.masks[end - 1] + 1) ++end;
    blocks_.adapted().add(first + sequence.masks[i], static_cast<std::int64_t>(end - i),
                          *sequence.adapters->int8);
    i = end;
  }
}

// Those of the scored rows that were added last. None where the logits that decide are others than
// the head's: a soft cap or a divisor may round two to one, a mask token's is removed.
void Int8Pass::add_conditions(const SequenceSpan& sequence, const RowPlan& plan,
                              std::int64_t first) {
  const auto before = static_cast<std::ptrdiff_t>(s_.greedy.rows());
  const auto rows = std::span(s_.scored).subspan(static_cast<std::size_t>(before));
  const bool conditional = !m_.head_.grouped() && sequence.greedy && sequence.scored > 0 &&
                           sequence.unreached_logits < c_.vocab && sequence.embeddings.empty() &&
                           c_.logit_softcap <= 0.0 && c_.logit_divisor == 1.0 && !c_.mask_token;
  if (conditional) s_.greedy.need_first(sequence.unreached_logits);
  for (const std::int64_t row : rows) {
    const auto parent = conditional
                            ? std::find(rows.begin(), rows.end(), first + plan.parent(row - first))
                            : rows.end();
    if (parent == rows.end()) {
      s_.greedy.add(GreedyHead::kNone);
    } else {
      s_.greedy.add(static_cast<std::int32_t>(before + (parent - rows.begin())),
                    sequence.tokens[static_cast<std::size_t>(row - first)]);
    }
  }
}

at::Tensor Int8Pass::run() {
  ThreadTeam::instance().run(threads_, [this](Worker& w) { work(w); });
  for (std::size_t l = 0; l < sequences_.size(); ++l) {
    sequences_[l].cache->advance(std::move(plans_[l]));
  }
  s_.greedy.mark_excluded(logits_.data_ptr<float>(), c_.vocab);
  return std::move(logits_);
}

void Int8Pass::work(Worker& w) {
  blocks_.each(w, blocks_.full(), [this](std::int64_t r) { embed(r); });
  for (std::int64_t i = 0; i < c_.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Int8Matrix& next = at + 1 < m_.layers_.size() ? m_.layers_[at + 1].qkv : m_.head_;
    const bool sliding = c_.sliding[at];
    std::function<void(std::int64_t)> keep;
    if (!kept_.empty()) keep = [this, i](std::int64_t r) { keep_state(r, i - 1); };
    blocks_.run(w, m_.layers_[at],
                {.index = i,
                 .in_kind = c_.index_in_kind(i),
                 .mask = {.window = sliding ? std::min(c_.window, c_.context) : 0},
                 .rope = !c_.rotates(at) ? Int8BlockPass::kNoRope
                         : sliding       ? 1U
                                         : 0U,
                 .next = next.first_panel(w)},
                keep);
  }
  if (!kept_.empty()) {
    blocks_.each(w, blocks_.full(), [this](std::int64_t r) { keep_state(r, c_.layers - 1); });
  }
  head(w);
}

void Int8Pass::keep_state(std::int64_t r, std::int64_t index) const {
  const Int8Workspace::Row& row = s_.rows[static_cast<std::size_t>(r)];
  const SequenceSpan& sequence = sequences_[row.sequence];
  if (sequence.states == nullptr) return;
  const auto all = static_cast<std::int64_t>(kept_.size());
  for (std::int64_t j = 0; j < all; ++j) {
    if (kept_[static_cast<std::size_t>(j)] != index) continue;
    std::copy_n(blocks_.hidden(r), c_.hidden, sequence.states + (row.index * all + j) * c_.hidden);
  }
}

void Int8Pass::embed(std::int64_t r) {
  const Int8Workspace::Row& row = s_.rows[static_cast<std::size_t>(r)];
  const SequenceSpan& sequence = sequences_[row.sequence];
  if (sequence.adapters != nullptr && sequence.adapters->mask_embedding.defined() &&
      std::binary_search(sequence.masks.begin(), sequence.masks.end(), row.index)) {
    std::copy_n(sequence.adapters->mask_embedding.const_data_ptr<float>(), c_.hidden,
                blocks_.hidden(r));
  } else if (sequence.embeddings.empty()) {
    const auto* table =
        reinterpret_cast<const std::uint16_t*>(m_.embedding_.const_data_ptr<at::BFloat16>());
    kernels().widen_bf16(table + sequence.tokens[static_cast<std::size_t>(row.index)] * c_.hidden,
                         c_.hidden, static_cast<float>(c_.embedding_scale), blocks_.hidden(r));
  } else {
    std::copy_n(sequence.embeddings.data() + row.index * c_.hidden, c_.hidden, blocks_.hidden(r));
  }
  blocks_.rotate(r);
}

void Int8Pass::head(Worker& w) {
  const auto scored = static_cast<std::int64_t>(s_.scored.size());
  if (scored == 0) return;
  k::Int8Rows x = m_.head_.in_form(blocks_.input());
  blocks_.each(w, scored, [&](std::int64_t i) {
    kernels().norm_quantize_row(blocks_.hidden(s_.scored[static_cast<std::size_t>(i)]),
                                m_.final_norm_.values(), static_cast<float>(m_.final_norm_.eps),
                                c_.hidden, x, i, blocks_.scratch(w));
  });
  x.far = false;  // one thread reads all logits, half of them its own
  float* out = logits_.data_ptr<float>();
  if (s_.greedy.conditional()) {
    s_.greedy.multiply(w, m_.head_, x, out);
  } else {
    m_.head_.multiply(w, x, scored, out, c_.vocab, false);
  }
  if (c_.logit_divisor != 1.0) {
    const auto by = static_cast<float>(c_.logit_divisor);
    blocks_.each_run(w, scored * c_.vocab, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] /= by;
    });
  }
  if (c_.logit_softcap <= 0.0) return;
  const auto cap = static_cast<float>(c_.logit_softcap);
  blocks_.each(w, scored * c_.vocab,
               [&](std::int64_t i) { out[i] = cap * std::tanh(out[i] / cap); });
}

Int8Decoder::Int8Decoder(const DecoderConfig& config, at::Tensor embedding,
                         std::vector<Int8Block> layers, RmsNorm final_norm, Int8Matrix head)
    : config_(config),
      embedding_(std::move(embedding)),
      layers_(std::move(layers)),
      final_norm_(std::move(final_norm)),
      head_(std::move(head)) {
  Int8BlockPass::Attention attention{.scale = config.query_scale,
                                     .softcap = config.attention_softcap,
                                     .ropes = {},
                                     .growth = config.query_growth};
  for (const bool sliding : {false, true}) {
    if (sliding && config.window <= 0) continue;
    attention.ropes.push_back(
        {.frequencies = inverse_frequencies(config, sliding), .size = rope_size(config, sliding)});
  }
  workspace_ = std::make_unique<Int8Workspace>(Int8BlockPass(config, std::move(attention)));
}

Int8Decoder::~Int8Decoder() = default;

KvCache Int8Decoder::make_cache(std::shared_ptr<KvPool> pool) const {
  const std::int64_t layers = config_.layers - config_.recurrent_count();
  return KvCache(KvPages({layers, config_.kv_heads, config_.head_dim}, std::move(pool)));
}

at::Tensor Int8Decoder::forward(std::span<const SequenceSpan> sequences, std::span<RowPlan> plans,
                                std::span<const std::int64_t> kept) const {
  const std::scoped_lock only(one_pass_);
  return Int8Pass(*this, sequences, plans, kept, at::get_num_threads()).run();
}

std::int64_t Int8Decoder::weight_bytes() const noexcept {
  std::int64_t bytes = head_.bytes();
  for (const Int8Block& l : layers_) bytes += l.bytes();
  return bytes;
}

}  // namespace forerun
