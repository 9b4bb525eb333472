#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "forerun/models/mar/mar.h"
#include "forerun/models/weights_digest.h"

namespace forerun {
namespace {

// Lists a model's tensors.
class MarList {
 public:
  explicit MarList(const MarConfig& config) : c_(config) {}

  void add(const std::string& name, at::Tensor& tensor, std::vector<std::int64_t> shape) {
    out_.push_back({name, &tensor, std::move(shape)});
  }
  void add(const std::string& name, Linear& l, std::int64_t out, std::int64_t in) {
    add(name + ".weight", l.weight, {out, in});
    add(name + ".bias", l.bias, {out});
  }
  void add(const std::string& name, MarNorm& n, std::int64_t dim) {
    add(name + ".weight", n.weight, {dim});
    add(name + ".bias", n.bias, {dim});
  }
  void add(const std::string& name, std::vector<MarBlock>& blocks) {
    const std::int64_t d = c_.hidden;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::string p = fmt::format("{}.{}.", name, i);
      MarBlock& b = blocks[i];
      add(p + "norm1", b.norm1, d);
      add(p + "attn.qkv", b.qkv, 3 * d, d);
      add(p + "attn.proj", b.out, d, d);
      add(p + "norm2", b.norm2, d);
      add(p + "mlp.fc1", b.up, c_.mlp, d);
      add(p + "mlp.fc2", b.down, d, c_.mlp);
    }
  }
  void add(MarHeadWeights& h) {
    const std::int64_t w = c_.head_width;
    const std::string p = "diffloss.net.";
    const bool separate = c_.modulation == MarModulation::kSeparate;
    add(p + "time_embed.mlp.0", h.time_in, w, 256);
    add(p + "time_embed.mlp.2", h.time_out, w, w);
    add(p + "cond_embed", h.condition, w, c_.hidden);
    add(p + "input_proj", h.input, w, c_.dim());
    for (std::size_t i = 0; i < h.blocks.size(); ++i) {
      const std::string block = fmt::format("{}res_blocks.{}.", p, i);
      MarHeadBlock& b = h.blocks[i];
      add(block + "in_ln", b.norm, w);
      add(block + "mlp.0", b.in, w, w);
      add(block + "mlp.2", b.out, w, w);
      add(block + "adaLN_modulation.1", b.modulation, 3 * w, w);
      if (separate) add(block + "adaLN_time.1", b.time, 3 * w, w);
    }
    add(p + "final_layer.adaLN_modulation.1", h.modulation, 2 * w, w);
    if (separate) add(p + "final_layer.adaLN_time.1", h.time, 2 * w, w);
    add(p + "final_layer.linear", h.output, c_.outputs(), w);
  }
  std::vector<ModelWeight> take() { return std::move(out_); }

 private:
  const MarConfig& c_;
  std::vector<ModelWeight> out_;
};

}  // namespace

std::vector<ModelWeight> weights(Mar& m) {
  const MarConfig& c = m.config;
  const std::int64_t d = c.hidden, rows = c.buffer + c.tokens();
  MarList list(c);
  list.add("class_emb.weight", m.classes, {c.classes, d});
  list.add("fake_latent", m.none, {1, d});
  list.add("z_proj", m.input, d, c.dim());
  list.add("z_proj_ln", m.input_norm, d);
  list.add("encoder_pos_embed_learned", m.encoder_positions, {1, rows, d});
  list.add("encoder_blocks", m.encoder);
  list.add("encoder_norm", m.encoder_norm, d);
  if (c.form == MarForm::kMasked) {
    list.add("decoder_embed", m.decoder_input, d, d);
    list.add("mask_token", m.mask, {1, 1, d});
    list.add("decoder_pos_embed_learned", m.decoder_positions, {1, rows, d});
    list.add("decoder_blocks", m.decoder);
    list.add("decoder_norm", m.decoder_norm, d);
  } else {
    list.add("query_pos_embed_learned", m.query_positions, {1, c.tokens(), d});
  }
  list.add("diffusion_pos_embed_learned", m.head_positions, {1, c.tokens(), d});
  list.add(m.head);
  return list.take();
}

Mar empty_mar(const MarConfig& config) {
  Mar m;
  m.config = config;
  m.encoder.resize(static_cast<std::size_t>(config.depth));
  m.decoder.resize(static_cast<std::size_t>(config.decoder_depth));
  m.head.blocks.resize(static_cast<std::size_t>(config.head_blocks));
  return m;
}

MarSize size_of(const MarConfig& config) {
  Mar m = empty_mar(config);
  MarSize out;
  for (const ModelWeight& w : weights(m)) {
    std::int64_t values = 1;
    for (const std::int64_t n : w.shape) values *= n;
    (w.name.starts_with("diffloss.") ? out.head : out.backbone) += values;
  }
  return out;
}

std::string digest_of(const Mar& model) {
  Mar shared = model;  // the same tensors; a digest only reads them
  return digest_of(weights(shared));
}

}  // namespace forerun
