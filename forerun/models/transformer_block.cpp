#include "forerun/models/transformer_block.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <limits>
#include <utility>

#include "forerun/tensor/fused.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

at::Tensor normed(const RmsNorm& norm, const BlockConfig& c, const at::Tensor& x) {
  if (!norm.defined()) return x;
  return c.fused ? norm.fused(x) : norm(x);
}

at::Tensor by_head(const at::Tensor& x, const BlockConfig& c) {
  return x.view({x.size(0), x.size(1) / c.head_dim, c.head_dim});
}

// Queries or keys by head, normed and rotated.
at::Tensor placed(const at::Tensor& x, const RmsNorm& norm, const BlockConfig& c,
                  const Rotation& rotation) {
  if (!norm.defined()) return rotation(by_head(x, c));
  if (c.whole_norms) return rotation(by_head(normed(norm, c, x), c));
  if (!c.fused || !rotation.cos.defined() || c.rotary_dim > 0) {
    return rotation(normed(norm, c, by_head(x, c)));
  }
  return fused_norm_rotate(x, norm.weight, norm.eps, rotation.cos, rotation.sin);
}

// Of every row the columns of the largest values, of equal ones the first.
at::Tensor largest(const at::Tensor& values, std::int64_t count) {
  return std::get<1>(values.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, count);
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, const BlockConfig& c) {
  if (c.activation == Activation::kGeluTanh) {
    return (c.fused ? fused_gelu(gate) : at::gelu(gate, "tanh")).mul(up);
  }
  if (c.activation == Activation::kClamped) {
    const at::Tensor g = gate.clamp_max(c.clamp.limit);
    return g * at::sigmoid(g * c.clamp.slope) * (up.clamp(-c.clamp.limit, c.clamp.limit) + 1);
  }
  return c.fused ? fused_swiglu(gate, up) : at::silu(gate).mul(up);
}

// Those of the groups with the largest sums of two scores; others minus infinity.
// Source: DeepSeek-V3, arXiv:2412.19437; transformers' modeling_glm4_moe.py.
at::Tensor in_likely_groups(const at::Tensor& scores, const ExpertRouting& r) {
  const at::Tensor by_group = scores.view({scores.size(0), r.groups, -1});  // [rows, groups, each]
  const at::Tensor sums = std::get<0>(by_group.topk(2, 2)).sum(2);
  const at::Tensor used = largest(sums, r.groups_used);
  const at::Tensor kept = at::zeros_like(sums, at::kBool).scatter(1, used, 1);
  return by_group
      .masked_fill(kept.logical_not().unsqueeze(2), -std::numeric_limits<double>::infinity())
      .view_as(scores);
}

// Of corrected scores in float32 where weights are bfloat16, as transformers has them: rounded
// logits would make many scores equal.
at::Tensor router_logits(const Linear& router, const BlockConfig& c, const at::Tensor& x) {
  const at::Tensor& w = router.weight;
  if (!c.routing.corrected || !w.defined() || w.scalar_type() != at::kBFloat16) return router(x);
  const at::Tensor bias = router.bias.defined() ? router.bias.to(at::kFloat) : at::Tensor();
  return at::linear(x.to(at::kFloat), w.to(at::kFloat), bias);
}

struct Routed {
  at::Tensor chosen, shares;  // [rows, experts_used]
};

// The likeliest experts of every row.
// Source: LLaDA-MoE, modeling_lladamoe.py in inclusionAI/LLaDA-MoE-7B-A1B-Instruct; transformers'
// modeling_qwen3_moe.py, modeling_mixtral.py and modeling_glm4_moe.py.
Routed routed(const TransformerBlock& b, const BlockConfig& c, const at::Tensor& x) {
  const at::Tensor logits = router_logits(b.router, c, x);
  const at::Tensor wide = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
  const at::Tensor scores = c.routing.sigmoid ? at::sigmoid(wide) : at::softmax(wide, 1);
  at::Tensor choice = c.routing.corrected ? scores + b.correction : scores;
  if (c.routing.groups > 1) choice = in_likely_groups(choice, c.routing);
  const at::Tensor chosen = largest(choice, c.experts_used);
  at::Tensor shares = scores.gather(1, chosen);
  if (c.norm_topk_prob) {
    const at::Tensor sum = shares.sum(1, /*keepdim=*/true);
    shares = shares / (c.routing.sigmoid ? sum + ExpertRouting::kNoZero : sum);
  }
  return {chosen, c.routing.scale == 1.0 ? shares : shares * c.routing.scale};
}

at::Tensor run_gated(const GatedMlp& mlp, const BlockConfig& c, const at::Tensor& x) {
  const auto both = products(x, {&mlp.gate, &mlp.up});
  return mlp.down(gated(both[0], both[1], c));
}

at::Tensor mixed(const TransformerBlock& b, const BlockConfig& c, const at::Tensor& x) {
  const Routed r = routed(b, c, x);
  at::Tensor out = at::zeros_like(x);
  const at::Tensor used = std::get<0>(at::_unique(r.chosen.cpu()));  // rising
  for (const std::int64_t e :
       std::span(used.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(used.numel()))) {
    const at::Tensor here = r.chosen.eq(e);  // [rows, experts_used]
    const at::Tensor rows = here.any(1).nonzero().squeeze(1);
    const at::Tensor own =
        run_gated(b.experts[static_cast<std::size_t>(e)], c, x.index_select(0, rows));
    const at::Tensor share = (r.shares * here).sum(1).index_select(0, rows).unsqueeze(1);
    out = out.index_add(0, rows, own * share.to(own.scalar_type()));
  }
  if (!b.shared) return out;
  const at::Tensor own = run_gated(*b.shared, c, x);
  return out + (b.shared_gate ? own * at::sigmoid((*b.shared_gate)(x)) : own);
}

// The residual stream with the output of attention or MLP.
at::Tensor added(const at::Tensor& h, const at::Tensor& branch, const RmsNorm& post,
                 const BlockConfig& c) {
  const at::Tensor x = normed(post, c, branch);
  return h + (c.residual_scale == 1.0 ? x : x * c.residual_scale);
}

// A sublayer's input and output, convolved if there is a convolution around it.
class Convolved {
 public:
  Convolved(const DynamicConv& conv, const BlockConfig& c, at::Tensor x, std::int64_t run)
      : conv_(conv), run_(run), input_(std::move(x)) {
    if (!conv.defined()) return;
    deltas_ = conv.deltas(c, input_);
    input_ = conv(input_, deltas_, 0, run);
  }
  at::Tensor take_input() { return std::move(input_); }  // once: it is not kept after its use
  at::Tensor output(const at::Tensor& y) const {
    return conv_.defined() ? conv_(y, deltas_, 1, run_) : y;
  }

 private:
  const DynamicConv& conv_;
  std::int64_t run_;
  at::Tensor input_, deltas_;
};

// The outputs of linear layers of one input, with what adapters add to them.
std::vector<at::Tensor> adapted_products(const at::Tensor& x,
                                         std::initializer_list<const Linear*> parts,
                                         std::initializer_list<BlockLora::Pair BlockLora::*> pairs,
                                         std::span<const AdaptedRows> adapted) {
  std::vector<at::Tensor> out = products(x, parts);
  for (const AdaptedRows& some : adapted) {
    const at::Tensor input = some.rows.defined() ? x.index_select(0, some.rows) : x;
    std::size_t i = 0;
    for (const auto pair : pairs) {
      at::Tensor& sum = out[i++];
      const auto& [a, b] = some.lora->*pair;
      if (!a.defined()) continue;
      const at::Tensor more = at::linear(at::linear(input, a), b);
      if (some.rows.defined()) {
        sum.index_add_(0, some.rows, more);  // in place: other strides would round other rows
      } else {
        sum = sum + more;
      }
    }
  }
  return out;
}

at::Tensor run_mlp(const TransformerBlock& b, const BlockConfig& c, const at::Tensor& middle,
                   std::span<const AdaptedRows> adapted, std::int64_t run) {
  using Lora = BlockLora;
  Convolved mlp(b.mlp_conv, c, normed(b.mlp_norm, c, middle), run);
  if (!b.experts.empty()) {
    return added(middle, mlp.output(mixed(b, c, mlp.take_input())), b.mlp_post_norm, c);
  }
  const auto both =
      adapted_products(mlp.take_input(), {&b.gate, &b.up}, {&Lora::gate, &Lora::up}, adapted);
  const auto down = adapted_products(gated(both[0], both[1], c), {&b.down}, {&Lora::down}, adapted);
  return added(middle, mlp.output(down[0]), b.mlp_post_norm, c);
}

void add_linear(Linear& l, std::int64_t rows, std::int64_t cols, const std::string& name,
                std::vector<ModelWeight>& out) {
  out.push_back({name + ".weight", &l.weight, {rows, cols}});
  if (l.bias.defined()) out.push_back({name + ".bias", &l.bias, {rows}});
}

void add_recurrent_weights(TransformerBlock& b, const BlockConfig& c, const std::string& prefix,
                           std::vector<ModelWeight>& out) {
  const RecurrentConfig& r = c.recurrent;
  RecurrentLayer& l = *b.recurrent;
  const bool delta = r.kind == RecurrentConfig::Kind::kGatedDelta;
  const std::string name = prefix + (delta ? "linear_attn." : "conv.");
  const std::int64_t channels = c.conv_channels();
  add_linear(l.inputs[0], delta ? channels : 3 * c.hidden, c.hidden,
             name + (delta ? "in_proj_qkv" : "in_proj"), out);
  const std::string conv = name + (delta ? "conv1d" : "conv");
  out.push_back({conv + ".weight", &l.values.conv, {r.taps, channels}});
  if (l.values.conv_bias.defined())
    out.push_back({conv + ".bias", &l.values.conv_bias, {channels}});
  if (delta) {
    add_linear(l.inputs[1], r.value_width(), c.hidden, name + "in_proj_z", out);
    add_linear(l.inputs[2], r.value_heads, c.hidden, name + "in_proj_b", out);
    add_linear(l.inputs[3], r.value_heads, c.hidden, name + "in_proj_a", out);
    out.push_back({name + "dt_bias", &l.values.time_bias, {r.value_heads}});
    out.push_back({name + "A_log", &l.values.rates, {r.value_heads}});
    out.push_back({name + "norm.weight", &l.values.norm.weight, {r.value_dim}});
  }
  add_linear(b.output, c.hidden, c.recurrent_outputs(), name + "out_proj", out);
}

void add_attention_weights(TransformerBlock& b, const BlockConfig& c, const std::string& prefix,
                           std::vector<ModelWeight>& out) {
  const std::string name = prefix + "self_attn.";
  add_linear(b.q, c.query_width(), c.hidden, name + "q_proj", out);
  add_linear(b.k, c.kv_width(), c.hidden, name + "k_proj", out);
  add_linear(b.v, c.kv_width(), c.hidden, name + "v_proj", out);
  if (c.output_gate) {
    add_linear(*b.output_gate, c.query_width(), c.hidden, name + "gate_proj", out);
  }
  add_linear(b.output, c.hidden, c.query_width(), name + "o_proj", out);
  if (c.sinks) out.push_back({name + "sinks", &b.sinks, {c.heads}});
  if (!c.head_norms) return;
  const bool whole = c.whole_norms;
  out.push_back({name + "q_norm.weight", &b.q_norm.weight, {whole ? c.query_width() : c.head_dim}});
  out.push_back({name + "k_norm.weight", &b.k_norm.weight, {whole ? c.kv_width() : c.head_dim}});
}

void add_mlp_weights(TransformerBlock& b, const BlockConfig& c, const std::string& prefix,
                     std::vector<ModelWeight>& out) {
  const auto mlp = [&](const std::string& name, Linear& gate, Linear& up, Linear& down,
                       std::int64_t width) {
    add_linear(gate, width, c.hidden, name + "gate_proj", out);
    add_linear(up, width, c.hidden, name + "up_proj", out);
    add_linear(down, c.hidden, width, name + "down_proj", out);
  };
  if (b.experts.empty()) return mlp(prefix, b.gate, b.up, b.down, c.intermediate);
  add_linear(b.router, c.experts, c.hidden, prefix + "gate", out);
  if (c.routing.corrected) {
    out.push_back({prefix + "gate.e_score_correction_bias", &b.correction, {c.experts}});
  }
  if (b.shared_gate) add_linear(*b.shared_gate, 1, c.hidden, prefix + "shared_expert_gate", out);
  if (b.shared) {  // Qwen's name, and DeepSeek's
    mlp(prefix + (c.shared_gate ? "shared_expert." : "shared_experts."), b.shared->gate,
        b.shared->up, b.shared->down, c.shared_intermediate);
  }
  for (std::size_t e = 0; e < b.experts.size(); ++e) {
    GatedMlp& expert = b.experts[e];
    mlp(prefix + "experts." + std::to_string(e) + ".", expert.gate, expert.up, expert.down,
        c.intermediate);
  }
}

}  // namespace

TransformerBlock::TransformerBlock(const BlockConfig& config) {
  for (RmsNorm* norm :
       {&attention_norm, &mlp_norm, &attention_post_norm, &mlp_post_norm, &q_norm, &k_norm}) {
    norm->eps = config.norm_eps;
  }
  if (!config.recurrent.none()) {
    recurrent.emplace().values.norm.eps = config.norm_eps;
    recurrent->inputs.resize(config.recurrent.kind == RecurrentConfig::Kind::kGatedDelta ? 4 : 1);
  } else if (config.output_gate) {
    output_gate.emplace();
  }
  experts.resize(static_cast<std::size_t>(config.experts));
  if (config.experts == 0 || config.shared_intermediate == 0) return;
  shared.emplace();
  if (config.shared_gate) shared_gate.emplace();
}

std::vector<Linear*> TransformerBlock::linears() {
  std::vector<Linear*> out = {&output};
  if (recurrent) {
    for (Linear& l : recurrent->inputs) out.push_back(&l);
  } else {
    out.insert(out.end(), {&q, &k, &v});
    if (output_gate) out.push_back(&*output_gate);
  }
  if (experts.empty()) {
    out.insert(out.end(), {&gate, &up, &down});
    return out;
  }
  out.push_back(&router);
  if (shared_gate) out.push_back(&*shared_gate);
  if (shared) out.insert(out.end(), {&shared->gate, &shared->up, &shared->down});
  for (GatedMlp& e : experts) out.insert(out.end(), {&e.gate, &e.up, &e.down});
  return out;
}

void add_weights(TransformerBlock& b, const BlockConfig& c, const std::string& prefix,
                 std::vector<ModelWeight>& out) {
  const auto norm = [&](const char* name, RmsNorm& n, std::int64_t width) {
    out.push_back({prefix + name + ".weight", &n.weight, {width}});
  };
  if (c.pre_norms) norm("input_layernorm", b.attention_norm, c.hidden);
  if (c.post_norms) {
    norm("post_attention_layernorm", b.attention_post_norm, c.hidden);
    if (c.pre_norms) norm("pre_feedforward_layernorm", b.mlp_norm, c.hidden);
    norm("post_feedforward_layernorm", b.mlp_post_norm, c.hidden);
  } else {
    norm("post_attention_layernorm", b.mlp_norm, c.hidden);
  }
  if (c.recurrent.none()) {
    add_attention_weights(b, c, prefix, out);
  } else {
    add_recurrent_weights(b, c, prefix, out);
  }
  if (c.conv_taps > 0) {
    add_weights(b.attention_conv, c, prefix + "attention_conv", out);
    add_weights(b.mlp_conv, c, prefix + "mlp_conv", out);
  }
  add_mlp_weights(b, c, prefix + "mlp.", out);
}

at::Tensor run_block(const TransformerBlock& b, const BlockConfig& c, const at::Tensor& h,
                     const Rotation& rotation, const Attend& attend,
                     std::span<const AdaptedRows> adapted, std::int64_t run) {
  using Lora = BlockLora;
  Convolved attention(b.attention_conv, c, normed(b.attention_norm, c, h), run);
  const at::Tensor x = attention.take_input();
  const auto qkv = adapted_products(x, {&b.q, &b.k, &b.v}, {&Lora::q, &Lora::k, &Lora::v}, adapted);
  at::Tensor attended = attend(rotation.grown(placed(qkv[0], b.q_norm, c, rotation)),
                               {placed(qkv[1], b.k_norm, c, rotation), by_head(qkv[2], c)});
  if (c.output_gate) attended = attended * at::sigmoid((*b.output_gate)(x));
  const auto output = adapted_products(attended, {&b.output}, {&Lora::output}, adapted);
  return run_mlp(b, c, added(h, attention.output(output[0]), b.attention_post_norm, c), adapted,
                 run);
}

at::Tensor run_block(const TransformerBlock& b, const BlockConfig& c, const at::Tensor& h,
                     RecurrentRows& rows, std::int64_t index) {
  const RecurrentLayer& l = *b.recurrent;
  const at::Tensor x = normed(b.attention_norm, c, h);
  const auto wide = [](const std::vector<at::Tensor>& parts) {
    return (parts.size() == 1 ? parts[0] : at::cat(parts, 1)).to(at::kFloat).contiguous();
  };
  const bool delta = c.recurrent.kind == RecurrentConfig::Kind::kGatedDelta;
  const at::Tensor in =
      wide(delta ? products(x, {&l.inputs[0], &l.inputs[1]}) : products(x, {&l.inputs[0]}));
  const at::Tensor steps = delta ? wide(products(x, {&l.inputs[2], &l.inputs[3]})) : at::Tensor();
  const RecurrentRows::Layer layer{.values = &l.values,
                                   .index = index,
                                   .products = in.const_data_ptr<float>(),
                                   .stride = in.size(1),
                                   .steps = delta ? steps.const_data_ptr<float>() : nullptr};
  const at::Tensor out = at::empty({h.size(0), c.recurrent_outputs()}, at::kFloat);
  const auto each = [](std::int64_t items, const auto& work) {
    parallel_for(0, items, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  };
  each(rows.convolve_items(), [&](std::int64_t i) { rows.convolve(layer, i); });
  if (delta) {
    each(rows.carry_items(), [&](std::int64_t i) { rows.carry(layer, i, at::get_thread_num()); });
  }
  each(rows.rows(), [&](std::int64_t i) {
    rows.output(layer, i, out.data_ptr<float>() + i * c.recurrent_outputs());
  });
  each(rows.sequences(), [&](std::int64_t i) { rows.close(layer, i); });
  return run_mlp(b, c, added(h, b.output(out.to(h.scalar_type())), b.attention_post_norm, c), {},
                 0);
}

KeysValues keys_values(const TransformerBlock& b, const BlockConfig& c, const at::Tensor& x,
                       const Rotation& rotation) {
  const auto kv = products(x, {&b.k, &b.v});
  return {placed(kv[0], b.k_norm, c, rotation), by_head(kv[1], c)};
}

}  // namespace forerun
