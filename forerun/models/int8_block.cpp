#include "forerun/models/int8_block.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/tensor/cpu/handover.h"
#include "forerun/tensor/recurrent_math.h"

namespace forerun {

namespace k = kernel;

namespace {

// Values that this thread is about to read and most often did not compute: too few in a row for the
// processor to ask for them by itself.
void prefetch(const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

// The first product of a block.
Int8Matrix pack_first(const TransformerBlock& b, Arena& arena) {
  if (!b.recurrent) {
    return b.output_gate ? pack_linear({&b.q, &b.k, &b.v, &*b.output_gate}, nullptr, arena)
                         : pack_linear({&b.q, &b.k, &b.v}, nullptr, arena);
  }
  const std::vector<Linear>& in = b.recurrent->inputs;
  return in.size() > 1 ? pack_linear({&in[0], &in[1]}, nullptr, arena)
                       : pack_linear({&in[0]}, nullptr, arena);
}

RecurrentValues plain_parts(const RecurrentValues& v) {
  return {.conv = plain_values(v.conv),
          .conv_bias = plain_values(v.conv_bias),
          .rates = plain_values(v.rates),
          .time_bias = plain_values(v.time_bias),
          .norm = plain_values(v.norm)};
}

at::Tensor plain_matrix(const Linear& l) {
  return l.stored != nullptr ? l.stored->unpacked() : plain_values(l.weight);
}

}  // namespace

Int8Block Int8Block::pack(const TransformerBlock& b, const BlockConfig& c, Arena& arena) {
  const bool delta = b.recurrent && b.recurrent->inputs.size() > 1;
  return {.attention_norm = plain_values(b.attention_norm),
          .mlp_norm = plain_values(b.mlp_norm),
          .attention_post_norm = plain_values(b.attention_post_norm),
          .mlp_post_norm = plain_values(b.mlp_post_norm),
          .q_norm = plain_values(b.q_norm),
          .k_norm = plain_values(b.k_norm),
          .qkv = pack_first(b, arena),
          .output = pack_linear({&b.output}, nullptr, arena),
          .recurrent = b.recurrent.has_value(),
          .values = b.recurrent ? plain_parts(b.recurrent->values) : RecurrentValues(),
          .steps = delta ? at::cat({plain_matrix(b.recurrent->inputs[2]),
                                    plain_matrix(b.recurrent->inputs[3])})
                         : at::Tensor(),
          .sinks = plain_values(b.sinks),
          .mlp = b.experts.empty()
                     ? Int8Mlp::pack(b.gate, b.up, b.down, c.activation, arena, c.clamp)
                     : Int8Mlp(),
          .experts = Int8Experts::pack(b, c, arena),
          .attention_conv = Int8Conv::pack(b.attention_conv, c, arena),
          .mlp_conv = Int8Conv::pack(b.mlp_conv, c, arena)};
}

Int8BlockPass::Int8BlockPass(const BlockConfig& config, Attention attention)
    : c_(config),
      shape_(std::move(attention)),
      width_(std::max(c_.attention_inputs(), c_.recurrent.none() ? 0 : c_.recurrent_inputs())),
      attention_({.heads = c_.heads,
                  .kv_heads = c_.kv_heads,
                  .head_dim = c_.head_dim,
                  .softcap = shape_.softcap}),
      experts_(config),
      recurrent_(config) {}

void Int8BlockPass::clear() {
  recurrent_.clear();
  context_rows_.clear();
  full_rows_.clear();
  sequences_.clear();
  adapted_.clear();
}

void Int8BlockPass::start(int threads, std::int64_t scratch) {
  const std::int64_t rows = full(), all = context() + rows;
  const auto room = [](AlignedBuffer<float>& b, std::int64_t n) {
    return b.room_for(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)));
  };
  const bool recurs = !c_.recurrent.none();
  const std::int64_t outputs =
      std::max(c_.query_width(), recurs ? c_.recurrent_outputs() : std::int64_t{0});
  scratch_size_ = std::max({scratch, Int8Mlp::scratch_size(c_.most_intermediate()),
                            k::rotated_width(c_.hidden), k::rotated_width(outputs)});
  // Adapters add to products that would have left the caches.
  const bool far = adapted_.empty() && threads_are_far(threads);
  hidden_ = room(hidden_room_, rows * c_.hidden);
  qkv_ = room(qkv_room_, all * width_);
  const bool convolves = c_.conv_taps > 0;
  const bool branches = c_.post_norms || convolves || c_.residual_scale != 1.0;
  branch_ = room(branch_room_, branches ? rows * c_.hidden : 0);
  const std::int64_t steps = recurs ? 2 * c_.recurrent.value_heads : 0;
  normed_ = room(normed_room_, convolves || steps > 0 ? rows * c_.hidden : 0);
  steps_ = room(steps_room_, rows * steps);
  if (recurs) recurrent_.start(threads);
  deltas_ = room(deltas_room_, convolves ? rows * c_.conv_outputs() : 0);
  places_.clear();
  for (const PagedAttention::Sequence& s : sequences_) {
    for (std::int64_t i = 0; convolves && i < s.rows; ++i) places_.push_back(i);
  }
  scratch_ = room(scratch_room_, threads * scratch_size_);
  const auto ropes = static_cast<std::int64_t>(shape_.ropes.size());
  rotations_ = room(rotations_room_, ropes * all * c_.rotated());
  input_ = input_room_.room_for(all, c_.hidden, far);
  attended_ = attended_room_.room_for(rows, outputs, far);
  const std::int64_t width = c_.experts == 0 ? c_.intermediate : c_.dense_intermediate;
  const std::int64_t gated = width > 0 ? rows : 0;
  gated_ = {room(gates_room_, gated * width), gated_room_.room_for(gated, width, far)};
  adapted_.start();
  experts_.start(rows);
  attention_.plan(sequences_, threads);
}

void Int8BlockPass::rotate(std::int64_t row) {
  const std::int64_t half = c_.rotated() / 2, angles = (context() + full()) * half;
  float* cos = rotations_ + row * half;
  for (const Attention::Rotary& rope : shape_.ropes) {
    const auto size = static_cast<float>(rope.size);
    float* sin = cos + angles;
    for (std::int64_t j = 0; j < half; ++j) {
      const float angle =
          static_cast<float>(at(row).position) * rope.frequencies[static_cast<std::size_t>(j)];
      cos[j] = std::cos(angle) * size;
      sin[j] = std::sin(angle) * size;
    }
    cos = sin + angles;
  }
}

void Int8BlockPass::run(Worker& w, const Int8Block& b, const Layer& layer,
                        const std::function<void(std::int64_t)>& before) {
  if (b.recurrent) {
    recur(w, b, layer, before);
  } else {
    attend(w, b, layer, before);
  }
  if (full() == 0) return;
  const k::Int8Rows attended = attended_of(b);
  const bool added = direct(b.attention_conv, b.attention_post_norm);
  const std::int64_t panels = b.output.panels(), own_end = w.own_end(panels);
  float* out = added ? hidden_ : branch_;
  w.each(panels, 1, [&](std::int64_t first, std::int64_t last) {
    b.output.multiply(first, last, attended, full(), out + first * k::kPanel, c_.hidden, added,
                      last == own_end && !b.experts.defined() ? b.mlp.first_panel(w) : nullptr);
    adapted_.raise(layer.index, &Int8BlockLora::output, first, last, 0, full(),
                   out + first * k::kPanel, c_.hidden);
  });
  add_branch(w, b.attention_conv, b.attention_post_norm);
  if (b.experts.defined()) {
    run_experts(w, b, layer);
  } else {
    run_mlp(w, b, layer);
  }
  add_branch(w, b.mlp_conv, b.mlp_post_norm);
}

void Int8BlockPass::attend(Worker& w, const Int8Block& b, const Layer& layer,
                           const std::function<void(std::int64_t)>& before) {
  const k::Int8Rows normed = b.qkv.in_form(k::rows_from(input_, context()));
  if (b.attention_conv.defined()) {
    convolve(w, b.attention_norm, b.attention_conv, before, layer.index, &Int8BlockLora::qkv,
             normed, b.qkv.first_panel(w));
  } else {
    norm(w, b.attention_norm, before, layer.index, &Int8BlockLora::qkv, normed);
  }
  project(w, b, layer.index);
  if (c_.whole_norms) norm_whole(w, b);
  // By heads: rows of one head go to the same lines of its pages.
  const std::int64_t placed = context() + full();
  each(w, placed * c_.kv_heads,
       [&](std::int64_t i) { place(w, i % placed, i / placed, b, layer); });
  if (full() == 0) return;
  attention_.attend(w, layer.in_kind, layer.mask);
  const k::Int8Rows attended = attended_of(b);
  const float* const sinks = b.sinks.defined() ? b.sinks.const_data_ptr<float>() : nullptr;
  each_run(w, full(), [&](std::int64_t begin, std::int64_t end) {
    float* out = scratch(w);
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        attention_.output(r, h, out + h * c_.head_dim, sinks != nullptr ? sinks + h : nullptr);
      }
      if (c_.output_gate) {
        const float* const gates =
            qkv_ + (context() + r) * width_ + c_.query_width() + 2 * c_.kv_width();
        recurrent::sigmoid_gate(gates, c_.query_width(), out);
      }
      kernels().quantize_row(out, c_.query_width(), attended, r, out);
    }
    adapted_.lower(layer.index, &Int8BlockLora::output, attended, begin, end, scratch(w));
  });
}

void Int8BlockPass::recur(Worker& w, const Int8Block& b, const Layer& layer,
                          const std::function<void(std::int64_t)>& before) {
  if (full() == 0) return;
  const k::Int8Rows x = b.qkv.in_form(k::rows_from(input_, context()));
  const bool delta = b.steps.defined();
  if (delta) {
    const auto eps = static_cast<float>(b.attention_norm.eps);
    each(w, full(), [&](std::int64_t r) {
      if (before) before(r);
      float* y = normed_ + r * c_.hidden;
      kernels().rms_norm_row(hidden(r), b.attention_norm.values(), eps, c_.hidden, y);
      kernels().quantize_row(y, c_.hidden, x, r, scratch(w));
    });
  } else {
    norm(w, b.attention_norm, before, layer.index, &Int8BlockLora::qkv, x);
  }
  float* const products = qkv_ + context() * width_;
  b.qkv.multiply(w, x, full(), products, width_, false, b.output.first_panel(w));
  const std::int64_t heads = c_.recurrent.value_heads;
  if (delta) {
    each(w, full() * 2 * heads, [&](std::int64_t i) {
      const std::int64_t r = i % full(), j = i / full();
      kernels().dot_rows(b.steps.const_data_ptr<float>() + j * c_.hidden, 1, c_.hidden,
                         normed_ + r * c_.hidden, 1, steps_ + r * 2 * heads + j, 1);
    });
  }
  const RecurrentRows::Layer own{.values = &b.values,
                                 .index = layer.in_kind,
                                 .products = products,
                                 .stride = width_,
                                 .steps = steps_};
  each(w, recurrent_.convolve_items(), [&](std::int64_t i) { recurrent_.convolve(own, i); });
  if (delta) {
    each(w, recurrent_.carry_items(), [&](std::int64_t i) { recurrent_.carry(own, i, w.index()); });
  }
  const k::Int8Rows attended = attended_of(b);
  each(w, full() + recurrent_.sequences(), [&](std::int64_t i) {
    if (i >= full()) return recurrent_.close(own, i - full());
    float* out = scratch(w);
    recurrent_.output(own, i, out);
    kernels().quantize_row(out, c_.recurrent_outputs(), attended, i, out);
  });
}

void Int8BlockPass::run_mlp(Worker& w, const Int8Block& b, const Layer& layer) {
  const k::Int8Rows mlp_input = b.mlp.in_form(k::rows_from(input_, context()));
  if (b.mlp_conv.defined()) {
    convolve(w, b.mlp_norm, b.mlp_conv, {}, layer.index, &Int8BlockLora::gate_up, mlp_input,
             b.mlp.first_panel(w));
  } else {
    norm(w, b.mlp_norm, {}, layer.index, &Int8BlockLora::gate_up, mlp_input);
  }
  const bool added = direct(b.mlp_conv, b.mlp_post_norm);
  b.mlp.run(w, {.x = mlp_input,
                .gated = gated_,
                .rows = full(),
                .scratch = scratch(w),
                .out = added ? hidden_ : branch_,
                .stride = c_.hidden,
                .add = added,
                .next = layer.next,
                .adapted = &adapted_,
                .layer = layer.index});
}

void Int8BlockPass::run_experts(Worker& w, const Int8Block& b, const Layer& layer) {
  const k::Int8Rows x = b.experts.mlp(0).in_form(k::rows_from(input_, context()));
  const float eps = static_cast<float>(b.mlp_norm.eps);
  each(w, full(), [&](std::int64_t r) {
    float* y = experts_.normed() + r * c_.hidden;
    kernels().rms_norm_row(hidden(r), b.mlp_norm.values(), eps, c_.hidden, y);
    kernels().quantize_row(y, c_.hidden, x, r, scratch(w));
  });
  experts_.run(w, b.experts, {full(), experts_.normed(), x, scratch(w), layer.next});
  each(w, full(), [&](std::int64_t r) {
    if (!direct(b.mlp_conv, b.mlp_post_norm)) {
      std::copy_n(experts_.add_up(r), c_.hidden, branch_ + r * c_.hidden);
    } else {
      kernels().add_row(experts_.add_up(r), c_.hidden, hidden(r));
    }
  });
}

void Int8BlockPass::norm(Worker& w, const RmsNorm& norm,
                         const std::function<void(std::int64_t)>& before, std::int64_t index,
                         Int8LoraPlace place, const k::Int8Rows& x) {
  const float* const weight = norm.defined() ? norm.values() : nullptr;
  each_run(w, full(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (before) before(r);
      if (weight == nullptr) {
        kernels().quantize_row(hidden(r), c_.hidden, x, r, scratch(w));
        continue;
      }
      kernels().norm_quantize_row(hidden(r), weight, static_cast<float>(norm.eps), c_.hidden, x, r,
                                  scratch(w));
    }
    adapted_.lower(index, place, x, begin, end, scratch(w));
  });
}

void Int8BlockPass::convolve(Worker& w, const RmsNorm& norm, const Int8Conv& conv,
                             const std::function<void(std::int64_t)>& before, std::int64_t index,
                             Int8LoraPlace place, const k::Int8Rows& x, const std::uint8_t* next) {
  if (full() == 0) return;
  const k::Int8Rows plain = k::rows_from(input_, context());
  const std::int64_t width = c_.hidden, deltas = c_.conv_outputs();
  each(w, full(), [&](std::int64_t r) {
    if (before) before(r);
    float* y = normed_ + r * width;
    kernels().rms_norm_row(hidden(r), norm.values(), static_cast<float>(norm.eps), width, y);
    kernels().quantize_row(y, width, plain, r, scratch(w));
  });
  conv.projection().multiply(w, plain, full(), deltas_, deltas, false, next);
  each_run(w, full(), [&](std::int64_t begin, std::int64_t end) {
    float* y = scratch(w);
    for (std::int64_t r = begin; r < end; ++r) {
      conv.row(0, normed_ + r * width, places_[static_cast<std::size_t>(r)], deltas_ + r * deltas,
               y);
      kernels().quantize_row(y, width, x, r, y);
    }
    adapted_.lower(index, place, x, begin, end, scratch(w));
  });
}

// Context rows take the panels from the first one that holds a key.
void Int8BlockPass::project(Worker& w, const Int8Block& b, std::int64_t index) {
  const std::int64_t first_key = c_.query_width() / k::kPanel;
  const std::int64_t skipped = full() > 0 ? 0 : first_key, panels = b.qkv.panels() - skipped;
  const std::int64_t own_end = w.own_end(panels) + skipped;
  const k::Int8Rows all = b.qkv.in_form(input_);
  w.each(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    begin += skipped;
    end += skipped;
    const std::uint8_t* next = end == own_end ? b.output.first_panel(w) : nullptr;
    const std::int64_t middle = std::clamp(first_key, begin, end);
    b.qkv.multiply(begin, middle, k::rows_from(all, context()), full(),
                   qkv_ + context() * width_ + begin * k::kPanel, width_, false,
                   middle == end ? next : nullptr);
    b.qkv.multiply(middle, end, all, context() + full(), qkv_ + middle * k::kPanel, width_, false,
                   next);
    adapted_.raise(index, &Int8BlockLora::qkv, begin, end, 0, full(),
                   qkv_ + context() * width_ + begin * k::kPanel, width_);
  });
}

// Keys and values of a row, and queries of a full one, in the layout of attention: those of one key
// head. The products' outputs stay as they are: their lines are most often another thread's.
void Int8BlockPass::place(Worker& w, std::int64_t row, std::int64_t kv_head, const Int8Block& b,
                          const Layer& layer) {
  const std::int64_t dim = c_.head_dim, half = c_.rotated() / 2, group = c_.heads / c_.kv_heads;
  const std::int64_t first = context(), all = first + full();
  const bool rotates = layer.rope != kNoRope;
  const auto rope = static_cast<std::int64_t>(rotates ? layer.rope : 0);
  const float* cos = rotations_ + 2 * rope * all * half + row * half;
  const float* sin = cos + all * half;
  const auto turned = [&](const float* x, const RmsNorm& norm) -> const float* {
    float* y = scratch(w);
    if (norm.defined() && !c_.whole_norms) {
      kernels().rms_norm_row(x, norm.values(), static_cast<float>(norm.eps), dim, y);
      x = y;
    }
    if (!rotates) return x;
    kernels().rope_row(x, cos, sin, half, y);
    if (x != y) std::copy(x + 2 * half, x + dim, y + 2 * half);
    return y;
  };
  const float* qkv = qkv_ + row * width_;
  const float* const key = qkv + (c_.heads + kv_head) * dim;
  const float* const value = key + c_.kv_heads * dim;
  if (row >= first) prefetch(qkv + kv_head * group * dim, group * dim);
  prefetch(key, dim);
  prefetch(value, dim);
  const auto scale = static_cast<float>(shape_.scale * shape_.growth.at(at(row).position));
  for (std::int64_t h = kv_head * group; row >= first && h < (kv_head + 1) * group; ++h) {
    attention_.set_query(row - first, h, turned(qkv + h * dim, b.q_norm), scale);
  }
  at(row).pages->write(layer.in_kind, kv_head, at(row).place, turned(key, b.k_norm), value);
}

void Int8BlockPass::norm_whole(Worker& w, const Int8Block& b) {
  const std::int64_t first = context();
  each(w, first + full(), [&](std::int64_t r) {
    const auto eps = static_cast<float>(b.q_norm.eps);
    float* q = qkv_ + r * width_;
    float* k = q + c_.query_width();
    if (r >= first) kernels().rms_norm_row(q, b.q_norm.values(), eps, c_.query_width(), q);
    kernels().rms_norm_row(k, b.k_norm.values(), eps, c_.kv_width(), k);
  });
}

void Int8BlockPass::add_branch(Worker& w, const Int8Conv& conv, const RmsNorm& post) {
  if (direct(conv, post)) return;
  each(w, full(), [&](std::int64_t r) {
    float* x = branch_ + r * c_.hidden;
    if (conv.defined()) {  // the rows after it read this one
      const float* from = x;
      x = scratch(w);
      conv.row(1, from, places_[static_cast<std::size_t>(r)], deltas_ + r * c_.conv_outputs(), x);
    }
    if (post.defined()) {
      kernels().rms_norm_row(x, post.values(), static_cast<float>(post.eps), c_.hidden, x);
    }
    if (c_.residual_scale != 1.0) {
      kernels().scale_row(x, c_.hidden, static_cast<float>(c_.residual_scale));
    }
    kernels().add_row(x, c_.hidden, hidden(r));
  });
}

}  // namespace forerun
