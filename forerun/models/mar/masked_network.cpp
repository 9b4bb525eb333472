#include "forerun/models/mar/masked_network.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {

MaskedNetwork::MaskedNetwork(const Mar& m) : config_(m.config) {
  if (config_.form != MarForm::kMasked) {
    throw std::invalid_argument("the network is of another form");
  }
  for (const std::int64_t width : {config_.hidden, config_.mlp}) {
    if (width % rows::kPanel != 0) {
      throw std::invalid_argument(fmt::format(
          "a width of {} cannot be sampled from: widths are multiples of {}", width, rows::kPanel));
    }
  }
  input_ = RowMatrix::pack(m.input);
  decoder_input_ = RowMatrix::pack(m.decoder_input);
  labels_ = packed_values(at::cat({m.classes, m.none}));
  mask_ = packed_values(m.mask);
  encoder_places_ = packed_values(m.encoder_positions);
  decoder_places_ = packed_values(m.decoder_positions);
  head_places_ = packed_values(m.head_positions);
  input_weight_ = packed_values(m.input_norm.weight);
  input_bias_ = packed_values(m.input_norm.bias);
  encoder_weight_ = packed_values(m.encoder_norm.weight);
  encoder_bias_ = packed_values(m.encoder_norm.bias);
  decoder_weight_ = packed_values(m.decoder_norm.weight);
  decoder_bias_ = packed_values(m.decoder_norm.bias);
  for (const MarBlock& b : m.encoder) encoder_.emplace_back(b);
  for (const MarBlock& b : m.decoder) decoder_.emplace_back(b);
}

// The rows of a call: those of the buffer and the known tokens, then all.
struct MaskedNetwork::Pass {
  std::vector<std::int64_t> read;  // places of the encoder's rows: the buffer's, then tokens'
  const float* tokens = nullptr;
  std::int64_t label = 0;
  AlignedBuffer<float> hidden, normed, wide, keys, values, scores, decoded;
  PackedRows rows;
  float *k = nullptr, *v = nullptr, *s = nullptr;
  std::int64_t score_stride = 0;
  float* second = nullptr;  // [rows, hidden]: the decoder's residual stream
};

template <class Each>
void MaskedNetwork::run_blocks(const std::vector<PackedBlock>& blocks, Pass& pass,
                               const Each& each) const {
  const rows::Kernels& k = rows::kernels();
  const PackedRows& r = pass.rows;
  const std::int64_t d = r.hidden;
  const auto attend = [&] {
    r.each_row(each, [&](std::int64_t row) {
      const float* const qkv = r.y + row * r.wide;
      std::copy_n(qkv + d, d, pass.k + row * d);
      std::copy_n(qkv + 2 * d, d, pass.v + row * d);
    });
    r.each_row(each, [&](std::int64_t row) {
      k.attention({.q = r.y + row * r.wide,
                   .keys = pass.k,
                   .values = pass.v,
                   .n = r.count,
                   .heads = config_.heads,
                   .head_dim = config_.head_dim(),
                   .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim())),
                   .scores = pass.s + row * pass.score_stride,
                   .out = r.x + row * d});
    });
  };
  for (const PackedBlock& b : blocks) r.run(b, each, attend);
}

template <class Each>
void MaskedNetwork::encode(Pass& pass, const Each& each) const {
  const rows::Kernels& k = rows::kernels();
  const PackedRows& r = pass.rows;
  const std::int64_t d = r.hidden, buffer = config_.buffer;
  r.each_row(each, [&](std::int64_t row) {
    const std::int64_t place = pass.read[static_cast<std::size_t>(row)];
    float* const h = r.h + row * d;
    if (place < buffer) {
      std::copy_n(labels_.data() + pass.label * d, d, h);
    } else {
      float* const y = r.y + row * r.wide;
      input_.multiply(
          {pass.tokens + (place - buffer) * config_.dim(), config_.dim(), y, r.wide, 1});
      std::copy_n(y, d, h);
    }
    k.add(h, encoder_places_.data() + place * d, d, h);
    r.norm(row, input_weight_.data(), input_bias_.data(), r.h);
  });
  run_blocks(encoder_, pass, each);
  r.each_row(each, [&](std::int64_t row) {
    r.norm(row, encoder_weight_.data(), encoder_bias_.data(), r.x);
  });
  r.product(decoder_input_, r.x, d, r.y, r.wide, each, [](auto...) {});
  const std::int64_t all = buffer + config_.tokens();
  each(all, 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t place = first; place < last; ++place) {
      const auto at = std::ranges::lower_bound(pass.read, place);
      const bool known = at != pass.read.end() && *at == place;
      const float* const from = known ? r.y + (at - pass.read.begin()) * r.wide : mask_.data();
      k.add(from, decoder_places_.data() + place * d, d, pass.second + place * d);
    }
  });
}

template <class Each>
void MaskedNetwork::decode(Pass& pass, const Each& each) const {
  const rows::Kernels& k = rows::kernels();
  const PackedRows& r = pass.rows;
  const std::int64_t d = r.hidden, buffer = config_.buffer;
  run_blocks(decoder_, pass, each);
  r.each_row(each, [&](std::int64_t row) {
    if (row < buffer) return;
    r.norm(row, decoder_weight_.data(), decoder_bias_.data(), r.x);
    float* const x = r.x + row * d;
    k.add(x, head_places_.data() + (row - buffer) * d, d, x);
  });
}

std::vector<float> MaskedNetwork::outputs(std::span<const float> tokens,
                                          std::span<const std::uint8_t> known,
                                          std::int64_t label) const {
  const MarConfig& c = config_;
  const std::int64_t all = c.buffer + c.tokens(), d = c.hidden;
  if (static_cast<std::int64_t>(tokens.size()) != c.tokens() * c.dim() ||
      static_cast<std::int64_t>(known.size()) != c.tokens() || label < 0 || label > c.classes) {
    throw std::invalid_argument(fmt::format(
        "a masked network of {} tokens of {} and {} classes: {} values, {} marks, class {}",
        c.tokens(), c.dim(), c.classes, tokens.size(), known.size(), label));
  }
  thread_local Pass pass;  // of the caller: its room is reused
  pass.tokens = tokens.data();
  pass.label = label;
  pass.read.clear();
  for (std::int64_t i = 0; i < c.buffer; ++i) pass.read.push_back(i);
  for (std::int64_t i = 0; i < c.tokens(); ++i) {
    if (known[static_cast<std::size_t>(i)] != 0) pass.read.push_back(c.buffer + i);
  }
  const auto room = [&](AlignedBuffer<float>& b, std::int64_t width) {
    return b.room_for(static_cast<std::size_t>(all * width));
  };
  pass.score_stride = all + rows::kPanel;
  pass.k = room(pass.keys, d);
  pass.v = room(pass.values, d);
  pass.s = room(pass.scores, pass.score_stride);
  pass.second = room(pass.decoded, d);
  const std::int64_t wide = std::max(3 * d, c.mlp);
  pass.rows = {.count = static_cast<std::int64_t>(pass.read.size()),
               .hidden = d,
               .wide = wide,
               .h = room(pass.hidden, d),
               .x = room(pass.normed, d),
               .y = room(pass.wide, wide)};

  // Multiply-adds below which a call stays on one thread: waking another costs more.
  constexpr double kWorthATeam = 3e5;
  const int threads = mar_backbone_work(c, 0.0) < kWorthATeam ? 1 : at::get_num_threads();
  const auto run = [&](Pass& p, auto&& with) {
    with([&](const auto& each) { encode(p, each); });
    p.rows.count = all;
    p.rows.h = p.second;
    with([&](const auto& each) { decode(p, each); });
  };
  run(pass, [&](const auto& part) {
    if (threads == 1) {
      part([](std::int64_t items, std::int64_t, const auto& w) { w(0, items); });
      return;
    }
    ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
      part([&](std::int64_t items, std::int64_t grain, const auto& work) {
        w.each(items, grain, work);
      });
    });
  });
  return {pass.rows.x + c.buffer * d, pass.rows.x + all * d};
}

}  // namespace forerun
