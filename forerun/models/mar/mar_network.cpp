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

// Multiply-adds below which a call stays on one thread: waking another costs more.
constexpr double kWorthATeam = 3e5;

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
  input_weight_ = packed_values(m.input_norm.weight);
  input_bias_ = packed_values(m.input_norm.bias);
  norm_weight_ = packed_values(m.encoder_norm.weight);
  norm_bias_ = packed_values(m.encoder_norm.bias);
  places_ = packed_values(m.encoder_positions);
  asked_ = packed_values(m.query_positions);
  head_places_ = packed_values(m.head_positions);
  labels_ = packed_values(at::cat({m.classes, m.none}));
  for (const MarBlock& b : m.encoder) blocks_.emplace_back(b);
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
    head_blocks_.push_back({.norm_weight = packed_values(b.norm.weight),
                            .norm_bias = packed_values(b.norm.bias),
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
  PackedRows at;
  float* s = nullptr;
  std::vector<float> conditions;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

// The backbone over the rows of a pass. `each(items, grain, work)` calls work(begin, end) until all
// items are done; a later call begins when an earlier one has ended.
template <class Each>
void MarNetwork::run_rows(Pass& pass, const Each& each) const {
  const rows::Kernels& k = rows::kernels();
  const MarConfig& c = config_;
  const PackedRows& at = pass.at;
  const std::int64_t d = c.hidden;
  const auto each_row = [&](const auto& work) {
    at.each_row(each, [&](std::int64_t r) { work(r, pass.rows[static_cast<std::size_t>(r)]); });
  };

  each_row([&](std::int64_t r, const Pass::Row& row) {
    float *const h = at.h + r * d, *const y = at.y + r * at.wide;
    const std::int64_t asked = c.patch_of(row.at);
    std::fill_n(h, d, 0.0F);
    if (row.token != nullptr) {
      input_.multiply({row.token, c.dim(), y, at.wide, 1});
      k.add(y, places_.data() + c.patch_of(row.at - 1) * d, d, h);
      at.norm(r, input_weight_.data(), input_bias_.data(), at.h);
    }
    k.add(h, labels_.data() + row.cache->label_ * d, d, h);
    k.add(h, asked_.data() + asked * d, d, h);
  });
  std::int64_t layer = 0;
  for (const PackedBlock& b : blocks_) {
    const std::int64_t of_layer = layer++ * c.tokens() * d;
    at.run(b, each, [&] {
      each_row([&](std::int64_t r, const Pass::Row& row) {
        const float* const qkv = at.y + r * at.wide;
        const std::int64_t to = of_layer + row.at * d;
        std::copy_n(qkv + d, d, row.cache->keys_.data() + to);
        std::copy_n(qkv + 2 * d, d, row.cache->values_.data() + to);
      });
      each_row([&](std::int64_t r, const Pass::Row& row) {
        k.attention({.q = at.y + r * at.wide,
                     .keys = row.cache->keys_.data() + of_layer,
                     .values = row.cache->values_.data() + of_layer,
                     .n = row.at + 1,
                     .heads = c.heads,
                     .head_dim = c.head_dim(),
                     .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim())),
                     .scores = pass.s + r * (c.tokens() + rows::kPanel),
                     .out = at.x + r * d});
      });
    });
  }
  each_row([&](std::int64_t r, const Pass::Row& row) {
    at.norm(r, norm_weight_.data(), norm_bias_.data(), at.x);
    float* const x = at.x + r * d;
    k.add(x, head_places_.data() + c.patch_of(row.at) * d, d, x);
  });
  at.product(condition_, at.x, d, pass.conditions.data(), condition_.columns(), each,
             [](auto...) {});
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
  const std::int64_t wide = std::max(3 * d, c.mlp);
  const auto room = [&](AlignedBuffer<float>& b, std::int64_t width) {
    return b.room_for(static_cast<std::size_t>(n * width));
  };
  pass.at = {.count = n,
             .hidden = d,
             .wide = wide,
             .h = room(pass.hidden, d),
             .x = room(pass.normed, d),
             .y = room(pass.wide, wide)};
  pass.s = room(pass.scores, c.tokens() + rows::kPanel);
  pass.conditions.assign(static_cast<std::size_t>(n * condition_.columns()), 0.0F);

  const double work =
      static_cast<double>(n) * mar_backbone_work(c) / static_cast<double>(c.tokens());
  const int threads = work < kWorthATeam ? 1 : at::get_num_threads();
  if (threads == 1) {
    run_rows(pass, [](std::int64_t items, std::int64_t, const auto& w) { w(0, items); });
  } else {
    Pass& shared = pass;  // the helpers have their own thread_local
    ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
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
