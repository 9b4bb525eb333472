#include "forerun/models/int8_experts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace forerun {

namespace k = kernel;

namespace {

template <class T>
void copy_values(const T* from, std::int64_t n, T* to) {
  if (from != nullptr && to != nullptr) std::copy_n(from, n, to);
}

void copy_row_of(const k::Int8Rows& from, const k::Int8Rows& to) {
  copy_values(from.values, from.width, to.values);
  copy_values(from.scales, 1, to.scales);
  copy_values(from.halves, from.width, to.halves);
  copy_values(from.groups, from.width / k::kGroup, to.groups);
}

std::vector<float> floats_of(const at::Tensor& t) {
  if (!t.defined()) return {};
  const at::Tensor x = plain_values(t);
  return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()};
}

at::Tensor numbers_of(const Linear& l) {
  return l.stored != nullptr ? l.stored->unpacked() : plain_values(l.weight);
}

}  // namespace

Int8Experts Int8Experts::pack(const TransformerBlock& b, const BlockConfig& c, Arena& arena) {
  Int8Experts out;
  if (b.experts.empty()) return out;
  if (c.conv_taps > 0) throw std::logic_error("convolutions around experts");
  out.hidden_ = c.hidden;
  out.used_ = c.experts_used;
  for (const GatedMlp& e : b.experts) {
    out.mlps_.push_back(Int8Mlp::pack(e.gate, e.up, e.down, c.activation, arena, c.clamp));
  }
  if (b.shared) {
    out.shared_ =
        Int8Mlp::pack(b.shared->gate, b.shared->up, b.shared->down, c.activation, arena, c.clamp);
  }
  at::Tensor router = numbers_of(b.router);
  if (b.shared_gate) router = at::cat({router, numbers_of(*b.shared_gate)});
  out.logits_ = router.size(0);
  out.router_ = arena.make<float>(static_cast<std::size_t>(router.numel()));
  std::copy_n(router.const_data_ptr<float>(), router.numel(), out.router_.get());
  out.bias_ = floats_of(b.router.bias);
  out.correction_ = floats_of(b.correction);
  return out;
}

std::int64_t Int8Experts::bytes() const noexcept {
  if (!defined()) return 0;
  const auto experts = static_cast<std::int64_t>(mlps_.size());
  std::int64_t all = 0;
  for (const Int8Mlp& mlp : mlps_) all += mlp.bytes();
  return all / experts * used_ + (shared_ ? shared_->bytes() : 0) +
         logits_ * hidden_ * static_cast<std::int64_t>(sizeof(float));
}

void Int8ExpertRows::start(std::int64_t rows) {
  if (c_.experts == 0) return;
  const std::int64_t slots = rows * c_.experts_used;
  const auto room = [](AlignedBuffer<float>& b, std::int64_t n) {
    return b.room_for(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)));
  };
  normed_ = room(normed_room_, rows * c_.hidden);
  logits_ = room(logits_room_, rows * (c_.experts + 1));
  choice_.start(rows);
  out_ = room(out_room_, slots * c_.hidden);
  x_ = x_room_.room_for(slots, c_.hidden);
  gated_ = {room(gates_room_, slots * c_.intermediate),
            gated_room_.room_for(slots, c_.intermediate)};
  if (rows == 1) x_.halves = gated_.rows.halves = nullptr;  // every expert has one row at most
  for (std::vector<std::int32_t>* v : {&chosen_, &slots_, &row_of_, &expert_of_}) {
    v->resize(static_cast<std::size_t>(slots));
  }
  shares_.resize(static_cast<std::size_t>(slots));
  begins_.resize(static_cast<std::size_t>(c_.experts + 1));
  active_.reserve(static_cast<std::size_t>(c_.experts));
  const std::int64_t width = c_.shared_intermediate;
  if (width == 0) return;
  shared_x_ = shared_x_room_.room_for(rows, c_.hidden);
  shared_gated_ = {room(shared_gates_room_, rows * width),
                   shared_gated_room_.room_for(rows, width)};
  shared_out_ = room(shared_out_room_, rows * c_.hidden);
  shared_share_.resize(c_.shared_gate ? static_cast<std::size_t>(rows) : 0);
}

// The phases of the shared MLP are those of the experts.
void Int8ExpertRows::run(Worker& w, const Int8Experts& experts, const Input& in) {
  const std::int64_t rows = in.rows, slots = rows * c_.experts_used, logits = experts.logits();
  w.each(logits, std::max<std::int64_t>(1, logits / (2L * w.count())),
         [&](std::int64_t first, std::int64_t last) {
           kernels().dot_rows(experts.router(first), last - first, c_.hidden, in.normed, rows,
                              logits_ + first, logits);
         });
  w.each(rows, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) choose(experts, r);
  });
  w.each(1, 1, [&](std::int64_t, std::int64_t) { place(rows); });
  const Int8Mlp* const shared = experts.shared();
  const Int8Mlp::Pass beside = shared != nullptr ? shared_pass(experts, in) : Int8Mlp::Pass{};
  const bool again = shared != nullptr && beside.x.values != in.x.values;
  const std::int64_t copied = slots + (again ? rows : 0);
  w.each(copied, std::max<std::int64_t>(1, copied / (2L * w.count())),
         [&](std::int64_t first, std::int64_t last) {
           for (std::int64_t s = first; s < std::min(last, slots); ++s) copy_row(experts, in, s);
           for (std::int64_t s = std::max(first, slots); s < last; ++s) {
             kernels().quantize_row(in.normed + (s - slots) * c_.hidden, c_.hidden, beside.x,
                                    s - slots, in.scratch);
           }
         });
  const auto active = static_cast<std::int64_t>(active_.size());
  const auto mlp = [&](std::int64_t i) -> const Int8Mlp& {
    return experts.mlp(active_[static_cast<std::size_t>(i)].expert);
  };
  const std::int64_t tasks = mlp(0).gate_tasks();
  const std::int64_t shared_tasks = shared != nullptr ? shared->gate_tasks() : 0;
  w.each(active * tasks + shared_tasks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      if (t < active * tasks) {
        mlp(t / tasks).gate(pass_of(experts, t / tasks, in), t % tasks, nullptr);
      } else {
        shared->gate(beside, t - active * tasks, nullptr);
      }
    }
  });
  w.each(active + beside.rows, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      if (i >= active) {
        shared->round(beside, i - active);
        continue;
      }
      const Int8Mlp::Pass pass = pass_of(experts, i, in);
      for (std::int64_t r = 0; r < pass.rows; ++r) mlp(i).round(pass, r);
    }
  });
  down(w, experts, in, beside);
}

void Int8ExpertRows::down(Worker& w, const Int8Experts& experts, const Input& in,
                          const Int8Mlp::Pass& beside) {
  const auto active = static_cast<std::int64_t>(active_.size());
  const std::int64_t panels = experts.mlp(0).down_panels(), own = active * panels;
  const Int8Mlp* const shared = experts.shared();
  const std::int64_t all = own + (shared != nullptr ? shared->down_panels() : 0);
  const std::int64_t own_end = w.own_end(all);
  w.each(all, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < std::min(last, own);) {
      const std::int64_t i = p / panels, end = std::min(last, (i + 1) * panels);
      const Int8Mlp& mlp = experts.mlp(active_[static_cast<std::size_t>(i)].expert);
      mlp.down(pass_of(experts, i, in), p - i * panels, end - i * panels,
               end == own_end ? in.next : nullptr);
      p = end;
    }
    first = std::max(first, own);
    if (first < last) {
      shared->down(beside, first - own, last - own, last == own_end ? in.next : nullptr);
    }
  });
}

// The experts of a row and their shares.
void Int8ExpertRows::choose(const Int8Experts& experts, std::int64_t row) {
  float* const logits = logits_ + row * experts.logits();
  const std::span<const float> bias = experts.bias();
  std::transform(bias.begin(), bias.end(), logits, logits, std::plus<>());
  if (!shared_share_.empty()) {
    shared_share_[static_cast<std::size_t>(row)] = 1.0F / (1.0F + std::exp(-logits[c_.experts]));
  }
  const auto used = static_cast<std::size_t>(c_.experts_used);
  const std::size_t first = static_cast<std::size_t>(row) * used;
  choice_.choose(row, {logits, static_cast<std::size_t>(c_.experts)}, experts.correction(),
                 std::span(chosen_).subspan(first, used), std::span(shares_).subspan(first, used));
}

// Slots by experts, and by rows within an expert.
void Int8ExpertRows::place(std::int64_t rows) {
  std::fill(begins_.begin(), begins_.end(), 0);
  for (const std::int32_t e : chosen_) ++begins_[static_cast<std::size_t>(e) + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  active_.clear();
  for (std::int32_t e = 0; e < c_.experts; ++e) {
    const std::int32_t first = begins_[static_cast<std::size_t>(e)];
    const std::int32_t n = begins_[static_cast<std::size_t>(e) + 1] - first;
    if (n > 0) active_.push_back({e, first, n});
  }
  for (std::int64_t i = 0; i < rows * c_.experts_used; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int32_t slot = begins_[static_cast<std::size_t>(chosen_[at])]++;
    slots_[at] = slot;
    row_of_[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(i / c_.experts_used);
    expert_of_[static_cast<std::size_t>(slot)] = chosen_[at];
  }
}

void Int8ExpertRows::copy_row(const Int8Experts& experts, const Input& in, std::int64_t slot) {
  const std::int64_t row = row_of_[static_cast<std::size_t>(slot)];
  const Int8Mlp& mlp = experts.mlp(expert_of_[static_cast<std::size_t>(slot)]);
  const k::Int8Rows to = mlp.in_form(x_);
  if (to.grouped == in.x.grouped) {
    copy_row_of(k::rows_from(in.x, row), k::rows_from(to, slot));
  } else {  // one expert of int8 among others of 4 bits
    kernels().quantize_row(in.normed + row * c_.hidden, c_.hidden, to, slot, in.scratch);
  }
}

Int8Mlp::Pass Int8ExpertRows::pass_of(const Int8Experts& experts, std::int64_t index,
                                      const Input& in) const {
  const Active& a = active_[static_cast<std::size_t>(index)];
  return {.x = experts.mlp(a.expert).in_form(k::rows_from(x_, a.first)),
          .gated = {.values = gated_.values + a.first * c_.intermediate,
                    .rows = k::rows_from(gated_.rows, a.first)},
          .rows = a.rows,
          .scratch = in.scratch,
          .out = out_ + a.first * c_.hidden,
          .stride = c_.hidden};
}

Int8Mlp::Pass Int8ExpertRows::shared_pass(const Int8Experts& experts, const Input& in) const {
  const k::Int8Rows x = experts.shared()->in_form(in.x);
  const bool alike = x.grouped == in.x.grouped;
  return {.x = alike ? x : experts.shared()->in_form(shared_x_),
          .gated = shared_gated_,
          .rows = in.rows,
          .scratch = in.scratch,
          .out = shared_out_,
          .stride = c_.hidden};
}

// To the place of the first of the row's outputs.
const float* Int8ExpertRows::add_up(std::int64_t row) {
  float* total = out_ + slots_[static_cast<std::size_t>(row * c_.experts_used)] * c_.hidden;
  for (std::int64_t i = 0; i < c_.experts_used; ++i) {
    const auto at = static_cast<std::size_t>(row * c_.experts_used + i);
    float* own = out_ + slots_[at] * c_.hidden;
    kernels().scale_row(own, c_.hidden, shares_[at]);
    if (i > 0) kernels().add_row(own, c_.hidden, total);
  }
  if (c_.shared_intermediate == 0) return total;
  float* own = shared_out_ + row * c_.hidden;
  if (!shared_share_.empty()) {
    kernels().scale_row(own, c_.hidden, shared_share_[static_cast<std::size_t>(row)]);
  }
  kernels().add_row(own, c_.hidden, total);
  return total;
}

}  // namespace forerun
