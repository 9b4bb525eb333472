#include "forerun/models/recurrent_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "forerun/tensor/recurrent_math.h"

namespace forerun {

namespace m = recurrent;

namespace {

constexpr std::int64_t kMostTaps = 16;

float softplus(float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); }

}  // namespace

RecurrentState::Shape state_shape(const BlockConfig& c, std::int64_t layers) {
  const RecurrentConfig& r = c.recurrent;
  return {.layers = layers,
          .channels = c.conv_channels(),
          .window = r.taps - 1,
          .key_heads = r.key_heads,
          .key_dim = r.key_dim,
          .value_heads = r.value_heads,
          .value_dim = r.value_dim};
}

void RecurrentRows::clear() {
  sequences_.clear();
  rows_.clear();
}

void RecurrentRows::add_sequence(RecurrentState* state, const RowPlan* plan) {
  state->begin();
  const std::size_t index = sequences_.size();
  sequences_.push_back({state, plan, rows()});
  for (std::int64_t i = 0; i < plan->rows(); ++i) rows_.push_back({index, i});
}

void RecurrentRows::start(std::int64_t workers) {
  const auto room = [](AlignedBuffer<float>& b, std::int64_t n) {
    b.room_for(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)));
  };
  room(mixed_, rows() * c_.conv_channels());
  if (!delta()) return;
  room(deltas_, rows() * r_.value_width());
  room(betas_, rows() * r_.value_heads);
  room(decays_, rows() * r_.value_heads);
  room(matrices_, workers * r_.key_dim * r_.value_dim);
  room(reads_, workers * 2 * r_.value_dim);
}

const float* RecurrentRows::inputs(const Layer& layer, std::int64_t row, std::int64_t first,
                                   std::int64_t n, float* room) const {
  const float* const x = layer.products + row * layer.stride + first;
  if (delta()) return x;
  m::multiply(x, x + 2 * c_.hidden, n, room);
  return room;
}

const float* RecurrentRows::inputs_before(const Layer& layer, const Row& row, std::int64_t back,
                                          std::int64_t first, std::int64_t n, float* room) const {
  const Sequence& s = sequences_[row.sequence];
  std::int64_t at = row.index;
  for (; back > 0 && at >= 0; --back) at = s.plan->parent(at);
  if (at >= 0) return inputs(layer, s.first + at, first, n, room);
  return s.state->input_before(layer.index, back + 1) + first;
}

void RecurrentRows::convolve_channels(const Layer& layer, const Row& row, std::int64_t first,
                                      std::int64_t n, float* out) const {
  std::array<const float*, kMostTaps> taps;
  std::array<std::array<float, kPart>, kMostTaps> room;  // of kShortConv
  for (std::int64_t t = 0; t < r_.taps; ++t) {
    const auto i = static_cast<std::size_t>(t);
    taps[i] = inputs_before(layer, row, r_.taps - 1 - t, first, n, room[i].data());
  }
  const RecurrentValues& v = *layer.values;
  const float* const bias =
      v.conv_bias.defined() ? v.conv_bias.const_data_ptr<float>() + first : nullptr;
  m::convolve(taps.data(), v.conv.const_data_ptr<float>() + first, c_.conv_channels(), r_.taps,
              bias, n, out);
}

void RecurrentRows::convolve(const Layer& layer, std::int64_t item) {
  const std::int64_t row = item / parts(), part = item % parts();
  const Row& at = rows_[static_cast<std::size_t>(row)];
  if (!delta()) {
    const std::int64_t first = part * kPart, n = std::min(kPart, c_.hidden - first);
    return convolve_channels(layer, at, first, n, mixed(row) + first);
  }
  const bool query = part < r_.key_heads, value = part >= 2 * r_.key_heads;
  const std::int64_t n = value ? r_.value_dim : r_.key_dim;
  const std::int64_t first =
      value ? 2 * r_.key_width() + (part - 2 * r_.key_heads) * r_.value_dim : part * r_.key_dim;
  float* const out = mixed(row) + first;
  convolve_channels(layer, at, first, n, out);
  m::silu(out, n);
  if (value) return set_step(layer, row, part - 2 * r_.key_heads);
  const float scale = query ? 1.0F / std::sqrt(static_cast<float>(n)) : 1.0F;
  m::unit_length(out, n, 1e-6F, scale);
}

void RecurrentRows::set_step(const Layer& layer, std::int64_t row, std::int64_t head) {
  const float* const steps = layer.steps + row * 2 * r_.value_heads + head;
  const float rate = layer.values->rates.const_data_ptr<float>()[head];
  const float bias = layer.values->time_bias.const_data_ptr<float>()[head];
  betas_.data()[row * r_.value_heads + head] = 1.0F / (1.0F + std::exp(-steps[0]));
  decays_.data()[row * r_.value_heads + head] =
      std::exp(-rate * softplus(steps[r_.value_heads] + bias));
}

RecurrentState::Row RecurrentRows::own(std::int64_t row, std::int64_t head) noexcept {
  return {.inputs = nullptr,
          .keys = mixed(row) + r_.key_width() + r_.key_head_of(head) * r_.key_dim,
          .deltas = deltas_.data() + row * r_.value_width() + head * r_.value_dim,
          .decays = decays_.data() + row * r_.value_heads + head};
}

// A matrix of one value head on its way along the rows of a sequence. Rows that belong to the state
// change it in place, others in memory of the thread.
class RecurrentRows::Walk {
 public:
  Walk(RecurrentRows& rows, const Sequence& sequence, std::int64_t layer, std::int64_t head,
       float* room)
      : rows_(rows),
        s_(sequence),
        layer_(layer),
        head_(head),
        state_(s_.state->matrix(layer, head)),
        room_(room),
        matrix_(state_) {
    const std::int64_t kept = s_.state->kept(), settled = s_.state->settled(*s_.plan);
    last_ = settled > 0 ? settled - 1 : s_.state->settled_kept() - kept - 1;
    after_ = in_state_ = -kept - 1;
    for (std::int64_t row = -kept; row < -1; ++row) {
      float* const to = row <= last_ ? state_ : room_;
      add(row_of(row), matrix_, to);
      moved(row, to);
    }
  }

  // Row `row` reads the matrix as its parent leaves it.
  void read(std::int64_t row, m::Step step) {
    const std::int64_t parent = s_.plan->parent(row);
    if (after_ != parent && after_ != before(parent)) {
      go_to(parent == last_ ? parent : before(parent));
    }
    step.from = matrix_;
    step.to = nullptr;
    step.key = nullptr;
    if (after_ != parent) {
      const RecurrentState::Row r = row_of(parent);
      step.key = r.keys;
      step.delta = r.deltas;
      step.decay = *r.decays;
      step.to = parent <= last_ ? state_ : row + 1 < s_.plan->rows() ? room_ : nullptr;
    }
    run(step);
    if (step.key != nullptr) moved(parent, step.to);
  }
  // Takes the rows into the state that belong there and that no row has read after.
  void end() {
    while (in_state_ < last_) advance_state();
  }

 private:
  // Rows are those of the pass; -1 is the last kept one of the journal, -2 the one before it.
  std::int64_t before(std::int64_t row) const { return row < 0 ? row - 1 : s_.plan->parent(row); }
  RecurrentState::Row kept_row(std::int64_t i) const {
    const RecurrentConfig& c = rows_.r_;
    RecurrentState::Row r = s_.state->kept_row(layer_, i);
    r.keys += c.key_head_of(head_) * c.key_dim;
    r.deltas += head_ * c.value_dim;
    r.decays += head_;
    return r;
  }
  RecurrentState::Row row_of(std::int64_t row) const {
    return row < 0 ? kept_row(s_.state->kept() + row) : rows_.own(s_.first + row, head_);
  }
  void run(m::Step& step) const {
    step.keys = rows_.r_.key_dim;
    step.values = rows_.r_.value_dim;
    m::step(step);
  }
  void add(const RecurrentState::Row& r, const float* from, float* to) const {
    m::Step step{};
    step.from = from;
    step.to = to;
    step.key = r.keys;
    step.delta = r.deltas;
    step.decay = *r.decays;
    run(step);
  }
  void moved(std::int64_t row, float* matrix) {
    after_ = matrix != nullptr ? row : kNowhere;
    matrix_ = matrix;
    if (matrix == state_) in_state_ = row;
  }
  void advance_state() {
    add(row_of(in_state_ + 1), state_, state_);
    ++in_state_;
  }
  // Only branches come here: their parents follow what belongs to the state.
  void go_to(std::int64_t row) {
    while (in_state_ < last_) advance_state();
    std::vector<std::int64_t> path;
    for (; row != in_state_; row = before(row)) path.push_back(row);
    moved(in_state_, state_);
    for (; !path.empty(); path.pop_back()) {
      add(row_of(path.back()), matrix_, room_);
      moved(path.back(), room_);
    }
  }

  static constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::min();
  RecurrentRows& rows_;
  const Sequence& s_;
  std::int64_t layer_, head_;
  float *state_, *room_, *matrix_;
  // Rows: the last one that belongs to the state; those after which `matrix_` and the state are.
  std::int64_t last_, after_, in_state_;
};

void RecurrentRows::carry(const Layer& layer, std::int64_t item, std::int64_t worker) {
  const std::int64_t head = item % r_.value_heads, n = r_.value_dim;
  const Sequence& s = sequences_[static_cast<std::size_t>(item / r_.value_heads)];
  float* const by_key = reads_.data() + worker * 2 * n;
  Walk walk(*this, s, layer.index, head, matrices_.data() + worker * r_.key_dim * n);
  for (std::int64_t i = 0; i < s.plan->rows(); ++i) {
    const RecurrentState::Row own_row = own(s.first + i, head);
    const float* const query = own_row.keys - r_.key_width();
    m::Step step{};
    step.own_key = own_row.keys;
    step.query = query;
    step.by_key = by_key;
    step.by_query = by_key + n;
    walk.read(i, step);
    float* const value = mixed(s.first + i) + 2 * r_.key_width() + head * n;
    m::change({.value = value,
               .by_key = by_key,
               .by_query = by_key + n,
               .beta = betas_.data()[(s.first + i) * r_.value_heads + head],
               .decay = *own_row.decays,
               .along = m::dot(own_row.keys, query, r_.key_dim),
               .delta = own_row.deltas,
               .out = value},
              n);
  }
  walk.end();
}

void RecurrentRows::output(const Layer& layer, std::int64_t row, float* out) const {
  const float* const products = layer.products + row * layer.stride;
  if (!delta()) return m::multiply(products + c_.hidden, mixed(row), c_.hidden, out);
  const RmsNorm& norm = layer.values->norm;
  std::copy_n(mixed(row) + 2 * r_.key_width(), r_.value_width(), out);
  for (std::int64_t h = 0; h < r_.value_heads; ++h) {
    m::rms_norm(out + h * r_.value_dim, norm.values(), r_.value_dim, norm.eps);
  }
  m::silu_gate(products + c_.conv_channels(), r_.value_width(), out);
}

void RecurrentRows::close(const Layer& layer, std::int64_t sequence) {
  const Sequence& s = sequences_[static_cast<std::size_t>(sequence)];
  s.state->close(layer.index, *s.plan, [&](std::int64_t i, const RecurrentState::Row& to) {
    const std::int64_t row = s.first + i, channels = c_.conv_channels();
    const float* const x = layer.products + row * layer.stride;
    if (delta()) {
      std::copy_n(x, channels, to.inputs);
    } else {
      m::multiply(x, x + 2 * c_.hidden, channels, to.inputs);
    }
    if (to.keys == nullptr || !delta()) return;
    std::copy_n(mixed(row) + r_.key_width(), r_.key_width(), to.keys);
    std::copy_n(deltas_.data() + row * r_.value_width(), r_.value_width(), to.deltas);
    std::copy_n(decays_.data() + row * r_.value_heads, r_.value_heads, to.decays);
  });
}

}  // namespace forerun
