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
  const at::Tensor router =
      b.router.stored != nullptr ? b.router.stored->unpacked() : plain_values(b.router.weight);
  out.router_ = arena.make<float>(static_cast<std::size_t>(router.numel()));
  std::copy_n(router.const_data_ptr<float>(), router.numel(), out.router_.get());
  if (b.router.bias.defined()) {
    const at::Tensor bias = plain_values(b.router.bias);
    out.bias_.assign(bias.const_data_ptr<float>(), bias.const_data_ptr<float>() + bias.numel());
  }
  return out;
}

std::int64_t Int8Experts::bytes() const noexcept {
  if (!defined()) return 0;
  const auto experts = static_cast<std::int64_t>(mlps_.size());
  std::int64_t all = 0;
  for (const Int8Mlp& mlp : mlps_) all += mlp.bytes();
  return all / experts * used_ + experts * hidden_ * static_cast<std::int64_t>(sizeof(float));
}

void Int8ExpertRows::start(std::int64_t rows) {
  if (c_.experts == 0) return;
  const std::int64_t slots = rows * c_.experts_used;
  const auto room = [](AlignedBuffer<float>& b, std::int64_t n) {
    return b.room_for(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)));
  };
  normed_ = room(normed_room_, rows * c_.hidden);
  logits_ = room(logits_room_, rows * c_.experts);
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
}

void Int8ExpertRows::run(Worker& w, const Int8Experts& experts, const Input& in) {
  const std::int64_t rows = in.rows, slots = rows * c_.experts_used;
  w.each(c_.experts, std::max<std::int64_t>(1, c_.experts / (2L * w.count())),
         [&](std::int64_t first, std::int64_t last) {
           kernels().dot_rows(experts.router(first), last - first, c_.hidden, in.normed, rows,
                              logits_ + first, c_.experts);
         });
  w.each(rows, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) choose(experts, r);
  });
  w.each(1, 1, [&](std::int64_t, std::int64_t) { place(rows); });
  w.each(slots, std::max<std::int64_t>(1, slots / (2L * w.count())),
         [&](std::int64_t first, std::int64_t last) {
           for (std::int64_t s = first; s < last; ++s) copy_row(experts, in, s);
         });
  const auto active = static_cast<std::int64_t>(active_.size());
  const auto mlp = [&](std::int64_t i) -> const Int8Mlp& {
    return experts.mlp(active_[static_cast<std::size_t>(i)].expert);
  };
  const std::int64_t tasks = mlp(0).gate_tasks();
  w.each(active * tasks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      mlp(t / tasks).gate(pass_of(experts, t / tasks, in), t % tasks, nullptr);
    }
  });
  w.each(active, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Int8Mlp::Pass pass = pass_of(experts, i, in);
      for (std::int64_t r = 0; r < pass.rows; ++r) mlp(i).round(pass, r);
    }
  });
  const std::int64_t panels = mlp(0).down_panels(), own_end = w.own_end(active * panels);
  w.each(active * panels, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last;) {
      const std::int64_t i = p / panels, end = std::min(last, (i + 1) * panels);
      mlp(i).down(pass_of(experts, i, in), p - i * panels, end - i * panels,
                  end == own_end ? in.next : nullptr);
      p = end;
    }
  });
}

// The experts of a row and their shares.
void Int8ExpertRows::choose(const Int8Experts& experts, std::int64_t row) {
  float* logits = logits_ + row * c_.experts;
  const std::span<const float> bias = experts.bias();
  std::transform(bias.begin(), bias.end(), logits, logits, std::plus<>());
  const float most = *std::max_element(logits, logits + c_.experts);
  float sum = 0.0F;
  for (std::int64_t e = 0; e < c_.experts; ++e) {
    logits[e] = std::exp(logits[e] - most);  // NaN, if one is
    sum += logits[e];
  }
  const auto first = static_cast<std::size_t>(row * c_.experts_used);
  const auto chosen = std::span(chosen_).subspan(first, static_cast<std::size_t>(c_.experts_used));
  const auto shares = std::span(shares_).subspan(first, chosen.size());
  constexpr float kTaken = -1.0F;  // no power
  float used = 0.0F;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < c_.experts; ++e) {
      if (logits[e] == kTaken) continue;
      if (best < 0 || logits[e] > logits[best]) best = e;
    }
    chosen[i] = best;
    shares[i] = std::exchange(logits[best], kTaken);
    used += shares[i];
  }
  for (float& share : shares) share /= c_.norm_topk_prob ? used : sum;
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

// To the place of the first of the row's outputs.
const float* Int8ExpertRows::add_up(std::int64_t row) {
  float* total = out_ + slots_[static_cast<std::size_t>(row * c_.experts_used)] * c_.hidden;
  for (std::int64_t i = 0; i < c_.experts_used; ++i) {
    const auto at = static_cast<std::size_t>(row * c_.experts_used + i);
    float* own = out_ + slots_[at] * c_.hidden;
    kernels().scale_row(own, c_.hidden, shares_[at]);
    if (i > 0) kernels().add_row(own, c_.hidden, total);
  }
  return total;
}

}  // namespace forerun
