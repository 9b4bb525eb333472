#include "forerun/models/medusa/int8_medusa.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "forerun/models/four_bit_block.h"
#include "forerun/models/int8_linear.h"
#include "forerun/models/medusa/four_bit_medusa.h"
#include "forerun/tensor/huge_table.h"
#include "forerun/tensor/reused_rows.h"

namespace forerun {

namespace k = kernel;

struct Int8Medusa::Workspace {
  AlignedBuffer<float> trunk, normed, heads, gates, scratch;
  Int8Activations inputs, narrow, gated, states;
  ReusedRows logits;
};

// One pass: the state that its phases share.
class Int8MedusaPass {
 public:
  Int8MedusaPass(const Int8Medusa& model, std::span<const MedusaInput> inputs, int threads);
  at::Tensor run();

 private:
  using Worker = ThreadTeam::Worker;
  void work(Worker& w);
  void read(std::int64_t row, float* scratch);
  float* scratch(const Worker& w) const { return scratch_ + w.index() * scratch_size_; }

  const Int8Medusa& m_;
  const MedusaConfig& c_;
  std::span<const MedusaInput> inputs_;
  std::int64_t rows_, scratch_size_;
  int threads_;
  float *trunk_, *normed_, *heads_, *gates_, *scratch_;
  k::Int8Rows input_{}, narrow_{}, gated_{}, states_{};
  at::Tensor logits_;
};

Int8MedusaPass::Int8MedusaPass(const Int8Medusa& model, std::span<const MedusaInput> inputs,
                               int threads)
    : m_(model),
      c_(model.config_),
      inputs_(inputs),
      rows_(static_cast<std::int64_t>(inputs.size())),
      // The inputs of fc, and room to rotate them.
      scratch_size_(std::max(
          c_.inputs() + k::rotated_width(c_.inputs()),
          std::max(Int8Mlp::scratch_size(c_.intermediate), c_.width + k::rotated_width(c_.width)))),
      threads_(threads) {
  Int8Medusa::Workspace& s = *model.workspace_;
  const auto room = [](AlignedBuffer<float>& b, std::int64_t n) {
    return b.room_for(static_cast<std::size_t>(n));
  };
  trunk_ = room(s.trunk, rows_ * c_.width);
  normed_ = room(s.normed, rows_ * c_.width);
  heads_ = room(s.heads, rows_ * c_.heads * c_.width);
  gates_ = room(s.gates, rows_ * c_.intermediate);
  scratch_ = room(s.scratch, threads * scratch_size_);
  input_ = m_.fc_.in_form(s.inputs.room_for(rows_, c_.inputs()));
  narrow_ = s.narrow.room_for(rows_, c_.width);
  gated_ = s.gated.room_for(rows_, c_.intermediate);
  states_ = m_.head_.in_form(s.states.room_for(rows_ * c_.heads, c_.width));
  logits_ = s.logits.take(rows_ * c_.heads, c_.draft_vocab);
}

at::Tensor Int8MedusaPass::run() {
  ThreadTeam::instance().run(threads_, [this](Worker& w) { work(w); });
  return std::move(logits_);
}

void Int8MedusaPass::read(std::int64_t row, float* scratch) {
  const MedusaInput& input = inputs_[static_cast<std::size_t>(row)];
  const auto eps = static_cast<float>(c_.norm_eps);
  float* to = scratch;
  for (std::int64_t i = 0; i < c_.features(); ++i, to += c_.hidden) {
    kernels().rms_norm_row(input.features + i * c_.hidden,
                           m_.feature_norms_[static_cast<std::size_t>(i)].values(), eps, c_.hidden,
                           to);
  }
  float* embedded = to + c_.hidden;  // before its norm
  const auto* table =
      reinterpret_cast<const std::uint16_t*>(m_.embedding_.const_data_ptr<at::BFloat16>());
  kernels().widen_bf16(table + input.newest * c_.hidden, c_.hidden, 1.0F, embedded);
  kernels().rms_norm_row(embedded, m_.embedding_norm_.values(), eps, c_.hidden, to);
  kernels().quantize_row(scratch, c_.inputs(), input_, row, scratch + c_.inputs());
}

void Int8MedusaPass::work(Worker& w) {
  const auto eps = static_cast<float>(c_.norm_eps);
  const auto each = [&](std::int64_t items, const auto& work) {
    w.each(items, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  };
  each(rows_, [&](std::int64_t r) { read(r, scratch(w)); });
  m_.fc_.multiply(w, input_, rows_, trunk_, c_.width, false, m_.mlp_.first_panel(w));
  const k::Int8Rows normed = m_.mlp_.in_form(narrow_);
  each(rows_, [&](std::int64_t r) {
    kernels().norm_quantize_row(trunk_ + r * c_.width, m_.mlp_norm_.values(), eps, c_.width, normed,
                                r, scratch(w));
  });
  m_.mlp_.run(w, {.x = normed,
                  .gated = {gates_, gated_},
                  .rows = rows_,
                  .scratch = scratch(w),
                  .out = trunk_,
                  .stride = c_.width,
                  .add = true,
                  .next = m_.heads_.first_panel(w)});
  const k::Int8Rows y = m_.heads_.in_form(narrow_);
  each(rows_, [&](std::int64_t r) {
    float* row = normed_ + r * c_.width;
    kernels().rms_norm_row(trunk_ + r * c_.width, m_.norm_.values(), eps, c_.width, row);
    kernels().quantize_row(row, c_.width, y, r, scratch(w));
  });
  m_.heads_.multiply(w, y, rows_, heads_, c_.heads * c_.width, false, m_.head_.first_panel(w));
  each(rows_ * c_.heads, [&](std::int64_t i) {
    float* row = heads_ + i * c_.width;
    const float* own = normed_ + i / c_.heads * c_.width;
    for (std::int64_t j = 0; j < c_.width; ++j) row[j] += own[j];
    kernels().norm_quantize_row(row,
                                m_.head_norms_[static_cast<std::size_t>(i % c_.heads)].values(),
                                eps, c_.width, states_, i, scratch(w));
  });
  m_.head_.multiply(w, states_, rows_ * c_.heads, logits_.data_ptr<float>(), c_.draft_vocab, false);
}

Int8Medusa::Int8Medusa(const Medusa& m)
    : MedusaPasses(m, Precision::kInt8),
      embedding_(m.embedding.scalar_type() == at::kBFloat16 && m.embedding.is_contiguous()
                     ? m.embedding  // an int8 target's own
                     : huge_table(m.embedding, at::kBFloat16)),
      embedding_norm_(plain_values(m.embedding_norm)),
      mlp_norm_(plain_values(m.mlp_norm)),
      norm_(plain_values(m.norm)),
      workspace_(std::make_unique<Workspace>()) {
  for (const RmsNorm& n : m.feature_norms) feature_norms_.push_back(plain_values(n));
  for (const RmsNorm& n : m.head_norms) head_norms_.push_back(plain_values(n));
  const bool four_bits = m.config.weight_bits == 4 && fits_four_bits(m);
  const auto packed = [&](const Linear& l) { return four_bits ? in_four_bits(l) : l; };
  Arena arena(std::size_t{4} << 20);
  const auto matrix = [&](const Linear& l) {
    const Linear as = packed(l);
    return pack_linear({&as}, nullptr, arena);
  };
  fc_ = matrix(m.fc);
  heads_ = matrix(m.heads);
  head_ = matrix({.weight = m.head, .bias = {}, .stored = {}});
  mlp_ = Int8Mlp::pack(packed(m.gate), packed(m.up), packed(m.down), Activation::kSilu, arena);
}

Int8Medusa::~Int8Medusa() = default;

at::Tensor Int8Medusa::forward(std::span<const MedusaInput> inputs) const {
  const std::scoped_lock only(one_pass_);
  return Int8MedusaPass(*this, inputs, at::get_num_threads()).run();
}

std::int64_t Int8Medusa::weight_bytes() const noexcept {
  return fc_.bytes() + mlp_.bytes() + heads_.bytes() + head_.bytes();
}

}  // namespace forerun
