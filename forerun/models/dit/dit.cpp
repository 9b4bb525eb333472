#include "forerun/models/dit/dit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <stdexcept>

#include "forerun/tensor/fused.h"
#include "forerun/tensor/fused_modulation.h"

namespace forerun {
namespace {

constexpr std::int64_t kFrequencies = 128;  // of the time embedding
constexpr double kNormEps = 1e-6;

// One piece of a modulation, in the type of the tensor that it modulates.
struct Modulation {
  at::Tensor all;
  std::int64_t hidden;
  at::Tensor operator()(std::int64_t i) const { return all.narrow(1, i * hidden, hidden); }
};

Modulation modulation(const Linear& l, const at::Tensor& condition, const at::Tensor& h) {
  return {l(condition).to(h.scalar_type()), h.size(2)};
}

// All heads of all images as one batch of products: flash attention would split it into thousands
// of small ones, and the scores of so few tokens fit the cache.
at::Tensor attention(const DitBlock& block, const DitConfig& c, const at::Tensor& x) {
  const std::int64_t n = x.size(0), tokens = x.size(1), heads = n * c.heads, dim = c.head_dim();
  const at::Tensor qkv = block.qkv(x)
                             .view({n, tokens, 3, c.heads, dim})
                             .permute({2, 0, 3, 1, 4})
                             .reshape({3, heads, tokens, dim});
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  const at::Tensor weights =
      at::softmax(at::bmm(qkv[0] * scale, qkv[1].transpose(1, 2)), -1).to(qkv.scalar_type());
  const at::Tensor y = at::bmm(weights, qkv[2]).view({n, c.heads, tokens, dim});
  return block.out(y.transpose(1, 2).reshape({n, tokens, c.hidden}));
}

void check(const Dit& m, const at::Tensor& x, const at::Tensor& time, const at::Tensor& label) {
  const DitConfig& c = m.config;
  const at::IntArrayRef s = x.sizes();
  if (s.size() != 4 || s[1] != c.channels || s[2] != c.input || s[3] != c.input ||
      time.dim() != 1 || time.size(0) != s[0] || label.dim() != 1 || label.size(0) != s[0]) {
    throw std::invalid_argument(fmt::format(
        "DiT: images of [{}], {} times, {} labels; expected [batch, {}, {}, {}] and one of each",
        fmt::join(s, ", "), time.numel(), label.numel(), c.channels, c.input, c.input));
  }
  if (s[0] > 0 &&
      (label.min().item<std::int64_t>() < 0 || label.max().item<std::int64_t>() > c.classes)) {
    throw std::invalid_argument(fmt::format("DiT: labels run from 0 to {}, and {} stands for none",
                                            c.classes - 1, c.classes));
  }
}

}  // namespace

at::Tensor dit_positions(const DitConfig& c) {
  const std::int64_t quarter = c.hidden / 4;
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor rates =
      at::pow(10000.0, at::arange(quarter, options) / -static_cast<double>(quarter));
  const at::Tensor side = at::arange(c.side(), options);
  const auto waves = [&](const at::Tensor& place) {
    const at::Tensor angles = at::outer(place, rates);
    return at::cat({angles.sin(), angles.cos()}, 1);
  };
  const at::Tensor column = side.repeat({c.side()}), row = side.repeat_interleave(c.side());
  return at::cat({waves(column), waves(row)}, 1).to(at::kFloat);
}

at::Tensor embed_time(const DitTime& w, const at::Tensor& time, double divisor) {
  // In float32, as in both published implementations: the angle of time 999 depends on it.
  const auto options = time.options().dtype(at::kFloat);
  const at::Tensor rates =
      at::exp(at::arange(kFrequencies, options) * -std::log(10000.0) / divisor);
  const at::Tensor angles = time.to(at::kFloat).unsqueeze(1) * rates;
  const at::Tensor waves = at::cat({angles.cos(), angles.sin()}, 1).to(w.in.weight.scalar_type());
  return w.out(at::silu(w.in(waves)));
}

at::Tensor patch_rows(const DitConfig& c, const at::Tensor& x) {
  const std::int64_t n = x.size(0), s = c.side(), p = c.patch;
  return x.reshape({n, c.channels, s, p, s, p})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({n, s * s, c.channels * p * p});
}

at::Tensor embed_patches(const Linear& patches, const at::Tensor& positions, const DitConfig& c,
                         const at::Tensor& x) {
  return patches(patch_rows(c, x)).to(positions.scalar_type()) + positions;
}

at::Tensor run_block(const DitBlock& block, const DitConfig& c, const at::Tensor& h,
                     const at::Tensor& condition) {
  const Modulation m = modulation(block.modulation, condition, h);
  const at::ScalarType type = product_type(h);
  const at::Tensor a = fused_layer_norm_modulate(h, m(0), m(1), kNormEps, type);
  const at::Tensor middle = fused_gated_sum(h, m(2), attention(block, c, a));
  const at::Tensor b = fused_layer_norm_modulate(middle, m(3), m(4), c.mlp_norm_eps, type);
  const at::Tensor wide = fused_gelu(block.up(b));
  return fused_gated_sum(middle, m(5), block.down(wide));
}

at::Tensor run_head(const DitHead& head, const DitConfig& c, const at::Tensor& feature,
                    const at::Tensor& condition) {
  const Modulation m = modulation(head.modulation, condition, feature);
  const at::Tensor x =
      fused_layer_norm_modulate(feature, m(0), m(1), kNormEps, product_type(feature));
  const at::Tensor y = head.out(x).to(feature.scalar_type());
  const std::int64_t n = y.size(0), s = c.side(), p = c.patch;
  return y.view({n, s, s, p, p, -1}).permute({0, 5, 1, 3, 2, 4}).reshape({n, -1, c.input, c.input});
}

double dit_block_work(const DitConfig& c) {
  const auto d = static_cast<double>(c.hidden), n = static_cast<double>(c.tokens());
  return n * (4.0 * d * d + 2.0 * d * static_cast<double>(c.mlp) + 2.0 * n * d) + 6.0 * d * d;
}

double dit_pass_work(const DitConfig& c) {
  const auto d = static_cast<double>(c.hidden), n = static_cast<double>(c.tokens()),
             patch = static_cast<double>(c.patch * c.patch);
  return static_cast<double>(c.depth) * dit_block_work(c) +
         n * d * patch * static_cast<double>(c.channels + c.out_channels()) + 3.0 * d * d +
         256.0 * d;
}

DitOutput run_dit(const Dit& m, const at::Tensor& x, const at::Tensor& time,
                  const at::Tensor& label) {
  check(m, x, time, label);
  const DitConfig& c = m.config;
  const at::Tensor embedded =
      embed_time(m.time, time, c.time_divisor) + m.labels.index_select(0, label);
  const at::Tensor condition = at::silu(embedded);
  at::Tensor h = embed_patches(m.patches, m.positions, c, x);
  for (const DitBlock& block : m.blocks) h = run_block(block, c, h, condition);
  const at::Tensor out = run_head(m.head, c, h, condition);
  if (!c.learned_sigma) return {.noise = out, .variance = {}, .feature = h};
  return {.noise = out.narrow(1, 0, c.channels),
          .variance = out.narrow(1, c.channels, c.channels),
          .feature = h};
}

}  // namespace forerun
