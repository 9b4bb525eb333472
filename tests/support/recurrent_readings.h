#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "forerun/models/recurrent_rows.h"
#include "forerun/tensor/recurrent_math.h"

/// Random recurrent layers, and two plain readings of texts with them.
namespace forerun {

inline std::size_t number(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Random layers, and rows for them: what the products of a row are in each layer.
struct RandomLayers {
  static constexpr std::int64_t kLayers = 2, kIds = 97;

  RandomLayers(const BlockConfig& config, std::uint32_t seed) : c(config), random(seed) {
    const RecurrentConfig& r = c.recurrent;
    stride = c.recurrent_inputs() + 5;
    for (std::int64_t l = 0; l < kLayers; ++l) {
      RecurrentValues v;
      v.conv = floats({r.taps, c.conv_channels()}, 0.5);
      if (l == 0 && r.kind == RecurrentConfig::Kind::kShortConv)
        v.conv_bias = floats({c.conv_channels()}, 0.5);
      if (r.kind == RecurrentConfig::Kind::kGatedDelta) {
        v.rates = floats({r.value_heads}, 1.0).exp() * 0.2;
        v.time_bias = floats({r.value_heads}, 1.0);
        v.norm = {floats({r.value_dim}, 1.0), 1e-6};
      }
      values.push_back(v);
      at::Tensor wide = at::full({kIds, stride}, std::numeric_limits<float>::quiet_NaN());
      wide.narrow(1, 0, c.recurrent_inputs()).copy_(floats({kIds, c.recurrent_inputs()}, 1.0));
      products.push_back(wide);
      steps.push_back(floats({kIds, 2 * std::max<std::int64_t>(r.value_heads, 1)}, 1.5));
    }
  }
  at::Tensor floats(std::vector<std::int64_t> sizes, double scale) {
    at::Tensor out = at::empty(sizes, at::kFloat);
    std::normal_distribution<double> law(0.0, scale);
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      out.data_ptr<float>()[i] = static_cast<float>(law(random));
    }
    return out;
  }
  const float* products_of(std::int64_t layer, std::int64_t id) const {
    return products[number(layer)].const_data_ptr<float>() + id * stride;
  }
  const float* steps_of(std::int64_t layer, std::int64_t id) const {
    return steps[number(layer)].const_data_ptr<float>() + id * steps[number(layer)].size(1);
  }

  BlockConfig c;
  std::mt19937 random;
  std::int64_t stride;
  std::vector<RecurrentValues> values;
  std::vector<at::Tensor> products, steps;
};

/// A text read row by row: the same arithmetic, all of its state in place, nothing to drop.
struct ByRows {
  struct Layer {
    std::vector<std::vector<float>> window;   // oldest first
    std::vector<float> matrices;              // with the row before
    std::vector<float> keys, deltas, decays;  // of the row before
  };
  std::vector<Layer> layers;

  explicit ByRows(const BlockConfig& c) {
    const RecurrentConfig& r = c.recurrent;
    layers.assign(number(RandomLayers::kLayers), {});
    for (Layer& l : layers) {
      l.window.assign(number(r.taps - 1), std::vector<float>(number(c.conv_channels())));
      l.matrices.assign(number(r.value_heads * r.key_dim * r.value_dim), 0.0F);
    }
  }
  std::vector<float> read(const RandomLayers& all, std::int64_t layer, std::int64_t id) {
    const BlockConfig& c = all.c;
    const RecurrentConfig& r = c.recurrent;
    const RecurrentValues& v = all.values[number(layer)];
    Layer& l = layers[number(layer)];
    const float* const x = all.products_of(layer, id);
    const bool delta = r.kind == RecurrentConfig::Kind::kGatedDelta;
    const std::int64_t channels = c.conv_channels();
    std::vector<float> own(x, x + channels), mixed(number(channels));
    if (!delta) recurrent::multiply(x, x + 2 * c.hidden, channels, own.data());
    l.window.push_back(own);
    std::vector<const float*> taps;
    for (const auto& row : l.window) taps.push_back(row.data());
    recurrent::convolve(taps.data(), v.conv.const_data_ptr<float>(), channels, r.taps,
                        v.conv_bias.defined() ? v.conv_bias.const_data_ptr<float>() : nullptr,
                        channels, mixed.data());
    l.window.erase(l.window.begin());
    std::vector<float> out(number(c.recurrent_outputs()));
    if (!delta) {
      recurrent::multiply(x + c.hidden, mixed.data(), channels, out.data());
      return out;
    }
    recurrent::silu(mixed.data(), channels);
    for (std::int64_t h = 0; h < 2 * r.key_heads; ++h) {
      recurrent::unit_length(
          mixed.data() + h * r.key_dim, r.key_dim, 1e-6F,
          h < r.key_heads ? 1.0F / std::sqrt(static_cast<float>(r.key_dim)) : 1.0F);
    }
    const float* const keys = mixed.data() + r.key_width();
    std::vector<float> deltas(number(r.value_width())), decays(number(r.value_heads));
    for (std::int64_t h = 0; h < r.value_heads; ++h) {
      const std::int64_t kh = r.tiled ? h % r.key_heads : h * r.key_heads / r.value_heads;
      const float* const key = keys + kh * r.key_dim;
      const float* const query = mixed.data() + kh * r.key_dim;
      float* const matrix = l.matrices.data() + h * r.key_dim * r.value_dim;
      std::vector<float> by_key(number(r.value_dim)), by_query(number(r.value_dim));
      recurrent::Step s{};
      s.from = s.to = matrix;
      s.keys = r.key_dim;
      s.values = r.value_dim;
      if (!l.keys.empty()) {
        s.key = l.keys.data() + kh * r.key_dim;
        s.delta = l.deltas.data() + h * r.value_dim;
        s.decay = l.decays[number(h)];
      }
      s.own_key = key;
      s.query = query;
      s.by_key = by_key.data();
      s.by_query = by_query.data();
      recurrent::step(s);
      const float* const st = all.steps_of(layer, id);
      const float a = st[r.value_heads + h] + v.time_bias.const_data_ptr<float>()[h];
      const float soft = a > 20.0F ? a : std::log1p(std::exp(a));
      decays[number(h)] = std::exp(-v.rates.const_data_ptr<float>()[h] * soft);
      recurrent::change({.value = mixed.data() + 2 * r.key_width() + h * r.value_dim,
                         .by_key = by_key.data(),
                         .by_query = by_query.data(),
                         .beta = 1.0F / (1.0F + std::exp(-st[h])),
                         .decay = decays[number(h)],
                         .along = recurrent::dot(key, query, r.key_dim),
                         .delta = deltas.data() + h * r.value_dim,
                         .out = out.data() + h * r.value_dim},
                        r.value_dim);
      recurrent::rms_norm(out.data() + h * r.value_dim, v.norm.values(), r.value_dim, v.norm.eps);
    }
    recurrent::silu_gate(x + channels, r.value_width(), out.data());
    l.keys.assign(keys, keys + r.key_width());
    l.deltas = deltas;
    l.decays = decays;
    return out;
  }
};

/// The published formulas, in float64.
struct InFloat64 {
  using Doubles = std::vector<double>;
  struct Layer {
    std::vector<Doubles> window;
    std::vector<Doubles> states;  // of each value head [key_dim, value_dim]
  };
  std::vector<Layer> layers;

  explicit InFloat64(const BlockConfig& c) {
    const RecurrentConfig& r = c.recurrent;
    layers.assign(number(RandomLayers::kLayers), {});
    for (Layer& l : layers) {
      l.window.assign(number(r.taps - 1), Doubles(number(c.conv_channels())));
      l.states.assign(number(r.value_heads), Doubles(number(r.key_dim * r.value_dim)));
    }
  }
  static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
  static Doubles l2norm(const double* x, std::int64_t n) {
    double squares = 1e-6;
    for (std::int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
    Doubles out(x, x + n);
    for (double& y : out) y /= std::sqrt(squares);
    return out;
  }
  // causal_conv1d of the newest row.
  static Doubles convolved(Layer& l, const RecurrentValues& v, const Doubles& own) {
    l.window.push_back(own);
    Doubles out(own.size());
    const auto n = static_cast<std::int64_t>(own.size());
    for (std::int64_t c = 0; c < n; ++c) {
      out[number(c)] = v.conv_bias.defined() ? v.conv_bias.const_data_ptr<float>()[c] : 0.0;
      for (std::size_t t = 0; t < l.window.size(); ++t) {
        out[number(c)] += l.window[t][number(c)] *
                          v.conv.const_data_ptr<float>()[static_cast<std::int64_t>(t) * n + c];
      }
    }
    l.window.erase(l.window.begin());
    return out;
  }
  Doubles read(const RandomLayers& all, std::int64_t layer, std::int64_t id) {
    const BlockConfig& c = all.c;
    const RecurrentConfig& r = c.recurrent;
    const RecurrentValues& v = all.values[number(layer)];
    Layer& l = layers[number(layer)];
    const float* const x = all.products_of(layer, id);
    Doubles out;
    if (r.kind ==
        RecurrentConfig::Kind::kShortConv) {  // B, C, x = in_proj.chunk(3); C * conv(B * x)
      Doubles own;
      for (std::int64_t i = 0; i < c.hidden; ++i) own.push_back(double{x[i]} * x[2 * c.hidden + i]);
      out = convolved(l, v, own);
      for (std::int64_t i = 0; i < c.hidden; ++i) out[number(i)] *= x[c.hidden + i];
      return out;
    }
    Doubles mixed = convolved(l, v, Doubles(x, x + c.conv_channels()));
    for (double& y : mixed) y *= sigmoid(y);
    const float* const st = all.steps_of(layer, id);
    for (std::int64_t h = 0; h < r.value_heads; ++h) {
      const std::int64_t kh = r.tiled ? h % r.key_heads : h / (r.value_heads / r.key_heads);
      Doubles q = l2norm(mixed.data() + kh * r.key_dim, r.key_dim);
      const Doubles k = l2norm(mixed.data() + r.key_width() + kh * r.key_dim, r.key_dim);
      for (double& y : q) y /= std::sqrt(static_cast<double>(r.key_dim));
      const double beta = sigmoid(st[h]);
      const double g = -double{v.rates.const_data_ptr<float>()[h]} *
                       std::log1p(std::exp(double{st[r.value_heads + h]} +
                                           v.time_bias.const_data_ptr<float>()[h]));
      Doubles& s = l.states[number(h)];
      for (double& y : s) y *= std::exp(g);
      Doubles head(number(r.value_dim));
      double squares = 0.0;
      for (std::int64_t j = 0; j < r.value_dim; ++j) {
        double memory = 0.0;
        for (std::int64_t i = 0; i < r.key_dim; ++i)
          memory += s[number(i * r.value_dim + j)] * k[number(i)];
        const double delta =
            (mixed[number(2 * r.key_width() + h * r.value_dim + j)] - memory) * beta;
        for (std::int64_t i = 0; i < r.key_dim; ++i) {
          s[number(i * r.value_dim + j)] += k[number(i)] * delta;
          head[number(j)] += s[number(i * r.value_dim + j)] * q[number(i)];
        }
        squares += head[number(j)] * head[number(j)];
      }
      const double by = 1.0 / std::sqrt(squares / static_cast<double>(r.value_dim) + v.norm.eps);
      for (std::int64_t j = 0; j < r.value_dim; ++j) {
        const double gate = x[c.conv_channels() + h * r.value_dim + j];
        out.push_back(head[number(j)] * by * v.norm.values()[j] * gate * sigmoid(gate));
      }
    }
    return out;
  }
};

}  // namespace forerun
