#include "forerun/models/mar/mar.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "forerun/tensor/fused_modulation.h"

namespace forerun {
namespace {

constexpr double kNormEps = 1e-6;
constexpr std::int64_t kFrequencies = 128;

at::Tensor attention(const MarBlock& block, const MarConfig& c, const at::Tensor& x, bool causal) {
  const std::int64_t batch = x.size(0), n = x.size(1);
  const at::Tensor qkv =
      block.qkv(x).view({batch, n, 3, c.heads, c.head_dim()}).permute({2, 0, 3, 1, 4});
  return at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, causal)
      .transpose(1, 2)
      .reshape({batch, n, c.hidden});
}

// Shift, scale and gates of all tokens, [tokens, pieces * width].
at::Tensor modulation(const Linear& of_condition, const Linear& of_time, const at::Tensor& time,
                      const at::Tensor& condition, const at::Tensor& which) {
  if (!of_time.weight.defined()) return of_condition(condition);
  return of_condition(condition) + of_time(time).index_select(0, which);
}

void check_tokens(const MarConfig& c, const at::Tensor& tokens, const at::Tensor& label) {
  if (tokens.dim() == 3 && tokens.size(1) == c.tokens() && tokens.size(2) == c.dim() &&
      label.dim() == 1 && label.size(0) == tokens.size(0)) {
    return;
  }
  throw std::invalid_argument(
      fmt::format("tokens of {} dimensions and {} labels; expected [batch, {}, {}] and [batch]",
                  tokens.dim(), label.numel(), c.tokens(), c.dim()));
}

}  // namespace

at::Tensor MarNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, kNormEps);
}

at::Tensor run_block(const MarBlock& block, const MarConfig& c, const at::Tensor& h, bool causal) {
  const at::Tensor middle = h + block.out(attention(block, c, block.norm1(h), causal));
  return middle + block.down(at::gelu(block.up(block.norm2(middle))));
}

at::Tensor run_causal(const Mar& m, const at::Tensor& tokens, const at::Tensor& label) {
  const MarConfig& c = m.config;
  check_tokens(c, tokens, label);
  const std::int64_t n = c.tokens();
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(c.patch_of(i));
  const at::Tensor places = at::tensor(order, at::kLong);
  const at::Tensor in_place = m.encoder_positions[0].index_select(0, places.narrow(0, 0, n - 1));
  const at::Tensor known = m.input_norm(m.input(tokens.narrow(1, 0, n - 1)) + in_place);
  // Row 0 is the class alone; every row knows the class and which patch it is asked for.
  const at::Tensor rows = at::constant_pad_nd(known, {0, 0, 1, 0});
  const at::Tensor labels = at::cat({m.classes, m.none}).index_select(0, label).unsqueeze(1);
  at::Tensor h = rows + labels + m.query_positions[0].index_select(0, places);
  for (const MarBlock& block : m.encoder) h = run_block(block, c, h, true);
  return m.encoder_norm(h) + m.head_positions[0].index_select(0, places);
}

at::Tensor embed_time(const MarHeadWeights& head, const at::Tensor& time) {
  const auto options = time.options().dtype(at::kFloat);  // the reference computes it in float32
  const at::Tensor rates =
      at::exp(at::arange(kFrequencies, options) * -std::log(10000.0) / double{kFrequencies});
  const at::Tensor angles = time.to(at::kFloat).unsqueeze(1) * rates;
  const at::Tensor waves =
      at::cat({angles.cos(), angles.sin()}, 1).to(head.time_in.weight.scalar_type());
  return head.time_out(at::silu(head.time_in(waves)));
}

at::Tensor run_head(const MarHeadWeights& head, const MarConfig& c, const at::Tensor& x,
                    const at::Tensor& time, const at::Tensor& condition) {
  const std::int64_t width = c.head_width;
  const auto [times, which, counts] = at::_unique2(time, true, true);
  const at::Tensor embedded = embed_time(head, times), given = head.condition(condition);
  const bool separate = c.modulation == MarModulation::kSeparate;
  const at::Tensor of_time = at::silu(embedded);
  const at::Tensor of_condition =
      at::silu(separate ? given : given + embedded.index_select(0, which));
  const at::ScalarType type = product_type(x);
  at::Tensor h = head.input(x).to(x.scalar_type());
  for (const MarHeadBlock& b : head.blocks) {
    const at::Tensor m =
        modulation(b.modulation, b.time, of_time, of_condition, which).to(h.scalar_type());
    const auto piece = [&](std::int64_t i) { return m.narrow(1, i * width, width); };
    // LayerNorm with weight and bias, then scale and shift, is one without and others.
    const at::Tensor scale = piece(1) + 1.0;
    const at::Tensor y = fused_layer_norm_modulate(h, piece(0) + b.norm.bias * scale,
                                                   b.norm.weight * scale - 1.0, kNormEps, type);
    h = fused_gated_sum(h, piece(2), b.out(at::silu(b.in(y))));
  }
  const at::Tensor m =
      modulation(head.modulation, head.time, of_time, of_condition, which).to(h.scalar_type());
  return head
      .output(fused_layer_norm_modulate(h, m.narrow(1, 0, width), m.narrow(1, width, width),
                                        kNormEps, type))
      .to(x.scalar_type());
}

double mar_backbone_work(const MarConfig& c, double known) {
  const auto d = static_cast<double>(c.hidden), mlp = static_cast<double>(c.mlp);
  const auto block = [&](double rows) {
    return rows * (4.0 * d * d + 2.0 * d * mlp + 2.0 * rows * d);
  };
  const double n = static_cast<double>(c.tokens() + c.buffer);
  const double read = c.form == MarForm::kMasked
                          ? static_cast<double>(c.buffer) + known * static_cast<double>(c.tokens())
                          : n;  // rows of the encoder
  return static_cast<double>(c.depth) * block(read) +
         static_cast<double>(c.decoder_depth) * block(n) + n * d * static_cast<double>(c.dim());
}

MarHeadWork mar_head_work(const MarConfig& c) {
  const auto w = static_cast<double>(c.head_width), blocks = static_cast<double>(c.head_blocks);
  return {.condition = static_cast<double>(c.hidden) * w + (3.0 * blocks + 2.0) * w * w,
          .transition = 2.0 * blocks * w * w + w * static_cast<double>(c.dim() + c.outputs())};
}

}  // namespace forerun
