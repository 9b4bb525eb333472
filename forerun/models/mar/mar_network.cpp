#include "forerun/models/mar/mar_network.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

constexpr float kMarNormEps = 1e-6F;
// Multiply-adds below which a call stays on one thread: waking another costs more.
constexpr double kWorthATeam = 3e5;

std::vector<float> values_of(const at::Tensor& x) {
  const at::Tensor flat = x.detach().to(at::kFloat).contiguous();
  const float* const p = flat.const_data_ptr<float>();
  return {p, p + flat.numel()};
}

void check_packable(const MarConfig& c) {
  for (const std::int64_t width : {c.hidden, c.mlp, c.head_width}) {
    if (width % rows::kPanel != 0) {
      throw std::invalid_argument(fmt::format(
          "a width of {} cannot be sampled from: widths are multiples of {}", width, rows::kPanel));
    }
  }
}

}  // namespace

MarNetwork::MarNetwork(const Mar& model, HeadPrecision precision)
    : config_(model.config), precision_(precision) {
  check_packable(config_);
  if (precision == HeadPrecision::kBF16 && !cpu_features().int8()) {
    throw std::invalid_argument("this processor has no kernels for a head in bf16");
  }
  if (config_.form == MarForm::kCausal) pack_backbone(model);
  pack_head(model);
}

void MarNetwork::pack_backbone(const Mar& m) {
  input_ = RowMatrix::pack(m.input);
  input_weight_ = values_of(m.input_norm.weight);
  input_bias_ = values_of(m.input_norm.bias);
  norm_weight_ = values_of(m.encoder_norm.weight);
  norm_bias_ = values_of(m.encoder_norm.bias);
  places_ = values_of(m.encoder_positions);
  asked_ = values_of(m.query_positions);
  head_places_ = values_of(m.head_positions);
  labels_ = values_of(at::cat({m.classes, m.none}));
  for (const MarBlock& b : m.encoder) {
    blocks_.push_back({.norm1_weight = values_of(b.norm1.weight),
                       .norm1_bias = values_of(b.norm1.bias),
                       .norm2_weight = values_of(b.norm2.weight),
                       .norm2_bias = values_of(b.norm2.bias),
                       .qkv = RowMatrix::pack(b.qkv),
                       .out = RowMatrix::pack(b.out),
                       .up = RowMatrix::pack(b.up),
                       .down = RowMatrix::pack(b.down)});
  }
}

void MarNetwork::pack_head(const Mar& m) {
  const MarHeadWeights& h = m.head;
  Arena arena;
  const auto packed = [&](const Linear& layer) {
    return precision_ == HeadPrecision::kBF16 ? HeadMatrix(layer, arena) : HeadMatrix(layer);
  };
  condition_ = RowMatrix::pack(h.condition);
  head_input_ = RowMatrix::pack(h.input);
  output_ = packed(h.output);
  std::vector<const Linear*> of_condition, of_time;
  for (const MarHeadBlock& b : h.blocks) {
    head_blocks_.push_back({.norm_weight = values_of(b.norm.weight),
                            .norm_bias = values_of(b.norm.bias),
                            .in = packed(b.in),
                            .out = packed(b.out)});
    of_condition.push_back(&b.modulation);
    of_time.push_back(&b.time);
  }
  of_condition.push_back(&h.modulation);
  of_time.push_back(&h.time);
  modulation_ = RowMatrix::pack(of_condition);
  if (config_.modulation == MarModulation::kSeparate) time_modulation_ = RowMatrix::pack(of_time);
  head_weights_.time_in = h.time_in;
  head_weights_.time_out = h.time_out;
}

MarCache MarNetwork::cache(std::int64_t label) const {
  if (config_.form != MarForm::kCausal) {
    throw std::invalid_argument("a masked network keeps no keys and values");
  }
  if (label < 0 || label > config_.classes) {
    throw std::invalid_argument(fmt::format("class {} is out of range: the network has {}, 0 to {}",
                                            label, config_.classes, config_.classes - 1));
  }
  MarCache out;
  out.label_ = label;
  const auto values = static_cast<std::size_t>(config_.depth * config_.tokens() * config_.hidden);
  out.keys_.resize(values);
  out.values_.resize(values);
  return out;
}

// The rows of a call.
struct MarNetwork::Pass {
  struct Row {
    MarCache* cache;
    std::int64_t at;     // its place in the sequence: the class, then tokens
    const float* token;  // [dim]; null: the class
  };
  std::vector<Row> rows;
  AlignedBuffer<float> hidden, normed, wide, scores;
  float *h = nullptr, *x = nullptr, *y = nullptr, *s = nullptr;
  std::int64_t wide_stride = 0;
  std::vector<float> conditions;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

// The backbone over the rows of a pass. `each(items, grain, work)` calls work(begin, end) until all
// items are done; a later call begins when an earlier one has ended.
template <class Each>
void MarNetwork::run_rows(Pass& pass, const Each& each) const {
  const rows::Kernels& k = rows::kernels();
  const MarConfig& c = config_;
  const std::int64_t n = pass.count(), d = c.hidden, stride = pass.wide_stride;
  const auto product = [&](const RowMatrix& m, const float* in, std::int64_t in_stride, float* out,
                           std::int64_t out_stride, const auto& then) {
    each(m.panels(), 4, [&](std::int64_t first, std::int64_t last) {
      m.multiply({in, in_stride, out, out_stride, n}, first, last);
      const std::int64_t from = first * rows::kPanel, width = (last - first) * rows::kPanel;
      for (std::int64_t r = 0; r < n; ++r) then(r, from, width, out + r * out_stride + from);
    });
  };
  const auto each_row = [&](const auto& work) {
    each(n, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) work(r, pass.rows[static_cast<std::size_t>(r)]);
    });
  };
  const auto norm = [&](std::int64_t r, const float* weight, const float* bias, float* out) {
    k.norm({.x = pass.h + r * d,
            .dim = d,
            .eps = kMarNormEps,
            .weight = weight,
            .bias = bias,
            .shift = nullptr,
            .scale = nullptr,
            .out = out + r * d});
  };
  const auto residual = [&](std::int64_t r, std::int64_t from, std::int64_t width, float* y) {
    k.add(pass.h + r * d + from, y, width, pass.h + r * d + from);
  };

  each_row([&](std::int64_t r, const Pass::Row& row) {
    float *const h = pass.h + r * d, *const y = pass.y + r * stride;
    const std::int64_t asked = c.patch_of(row.at);
    std::fill_n(h, d, 0.0F);
    if (row.token != nullptr) {
      input_.multiply({row.token, c.dim(), y, stride, 1});
      k.add(y, places_.data() + c.patch_of(row.at - 1) * d, d, h);
      norm(r, input_weight_.data(), input_bias_.data(), pass.h);
    }
    k.add(h, labels_.data() + row.cache->label_ * d, d, h);
    k.add(h, asked_.data() + asked * d, d, h);
  });
  std::int64_t layer = 0;
  for (const Block& b : blocks_) {
    const std::int64_t of_layer = layer++ * c.tokens() * d;
    each_row([&](std::int64_t r, const Pass::Row&) {
      norm(r, b.norm1_weight.data(), b.norm1_bias.data(), pass.x);
    });
    product(b.qkv, pass.x, d, pass.y, stride, [](auto...) {});
    each_row([&](std::int64_t r, const Pass::Row& row) {
      const float* const qkv = pass.y + r * stride;
      const std::int64_t to = of_layer + row.at * d;
      std::copy_n(qkv + d, d, row.cache->keys_.data() + to);
      std::copy_n(qkv + 2 * d, d, row.cache->values_.data() + to);
    });
    each_row([&](std::int64_t r, const Pass::Row& row) {
      k.attention({.q = pass.y + r * stride,
                   .keys = row.cache->keys_.data() + of_layer,
                   .values = row.cache->values_.data() + of_layer,
                   .n = row.at + 1,
                   .heads = c.heads,
                   .head_dim = c.head_dim(),
                   .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim())),
                   .scores = pass.s + r * (c.tokens() + rows::kPanel),
                   .out = pass.x + r * d});
    });
    product(b.out, pass.x, d, pass.y, stride, residual);
    each_row([&](std::int64_t r, const Pass::Row&) {
      norm(r, b.norm2_weight.data(), b.norm2_bias.data(), pass.x);
    });
    product(b.up, pass.x, d, pass.y, stride,
            [&](std::int64_t, std::int64_t, std::int64_t width, float* y) { k.gelu(y, width); });
    // Into the room of the norms, which are no longer needed.
    product(b.down, pass.y, stride, pass.x, d, residual);
  }
  each_row([&](std::int64_t r, const Pass::Row& row) {
    norm(r, norm_weight_.data(), norm_bias_.data(), pass.x);
    float* const x = pass.x + r * d;
    k.add(x, head_places_.data() + c.patch_of(row.at) * d, d, x);
  });
  product(condition_, pass.x, d, pass.conditions.data(), condition_.columns(), [](auto...) {});
}

std::vector<float> MarNetwork::conditions(std::span<const Rows> images) const {
  const MarConfig& c = config_;
  const std::int64_t dim = c.dim();
  thread_local Pass pass;  // of the caller: its room is reused
  pass.rows.clear();
  for (const Rows& image : images) {
    const std::int64_t n = static_cast<std::int64_t>(image.tokens.size()) / dim;
    const std::int64_t kept = image.cache->rows_, fresh = n + (kept == 0 ? 1 : 0);
    if (n * dim != static_cast<std::int64_t>(image.tokens.size()) || kept + fresh > c.tokens()) {
      throw std::invalid_argument(
          fmt::format("{} values for an image with {} of {} rows: whole tokens of {}, and the last "
                      "token asks for none",
                      image.tokens.size(), kept, c.tokens(), dim));
    }
    for (std::int64_t i = 0; i < fresh; ++i) {
      const std::int64_t at = kept + i;
      const std::int64_t token = kept == 0 ? i - 1 : i;
      pass.rows.push_back(
          {image.cache, at, token < 0 ? nullptr : image.tokens.data() + token * dim});
    }
  }
  const std::int64_t n = pass.count(), d = c.hidden;
  if (n == 0) return {};
  pass.wide_stride = std::max(3 * d, c.mlp);
  const auto room = [&](AlignedBuffer<float>& b, std::int64_t width) {
    return b.room_for(static_cast<std::size_t>(n * width));
  };
  pass.h = room(pass.hidden, d);
  pass.x = room(pass.normed, d);
  pass.y = room(pass.wide, pass.wide_stride);
  pass.s = room(pass.scores, c.tokens() + rows::kPanel);
  pass.conditions.assign(static_cast<std::size_t>(n * condition_.columns()), 0.0F);

  const double work =
      static_cast<double>(n) * mar_backbone_work(c) / static_cast<double>(c.tokens());
  const int threads = work < kWorthATeam ? 1 : at::get_num_threads();
  const std::size_t phases = 8 * blocks_.size() + 3;
  if (threads == 1) {
    run_rows(pass, [](std::int64_t items, std::int64_t, const auto& w) { w(0, items); });
  } else {
    Pass& shared = pass;  // the helpers have their own thread_local
    ThreadTeam::instance().run(threads, phases, [&](ThreadTeam::Worker& w) {
      run_rows(shared, [&](std::int64_t items, std::int64_t grain, const auto& work_on) {
        w.each(items, grain, work_on);
      });
    });
  }
  for (const Rows& image : images) {
    const std::int64_t tokens = static_cast<std::int64_t>(image.tokens.size()) / dim;
    image.cache->rows_ += tokens + (image.cache->rows_ == 0 ? 1 : 0);
  }
  return pass.conditions;
}

std::vector<float> MarNetwork::conditions_of(std::span<const float> outputs) const {
  const std::int64_t n = static_cast<std::int64_t>(outputs.size()) / config_.hidden;
  std::vector<float> out(static_cast<std::size_t>(n * condition_.columns()));
  condition_.multiply({outputs.data(), config_.hidden, out.data(), condition_.columns(), n});
  return out;
}

}  // namespace forerun
