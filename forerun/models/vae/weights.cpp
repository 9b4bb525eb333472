#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "forerun/models/vae/vae.h"

namespace forerun {
namespace {

class List {
 public:
  void conv(const std::string& name, VaeAffine& a, std::int64_t in, std::int64_t out,
            std::int64_t side) {
    add(name, a, {out, in, side, side});
  }
  void add(const std::string& name, VaeAffine& a, std::vector<std::int64_t> shape) {
    const std::int64_t out = shape[0];
    weights_.push_back({name + ".weight", &a.weight, std::move(shape)});
    weights_.push_back({name + ".bias", &a.bias, {out}});
  }
  void resnet(const std::string& name, VaeResnet& r, std::int64_t in, std::int64_t out) {
    add(name + ".norm1", r.norm1, {in});
    conv(name + ".conv1", r.conv1, in, out, 3);
    add(name + ".norm2", r.norm2, {out});
    conv(name + ".conv2", r.conv2, out, out, 3);
    if (in != out) conv(name + ".conv_shortcut", r.shortcut, in, out, 1);
  }
  // Two resnets with attention between them.
  void middle(const std::string& name, VaeResnet& first, VaeAttention& a, VaeResnet& second,
              std::int64_t width) {
    resnet(name + ".resnets.0", first, width, width);
    attention(name + ".attentions.0.", a, width);
    resnet(name + ".resnets.1", second, width, width);
  }
  void attention(const std::string& name, VaeAttention& a, std::int64_t width) {
    add(name + "group_norm", a.norm, {width});
    add(name + "to_q", a.q, {width, width});
    add(name + "to_k", a.k, {width, width});
    add(name + "to_v", a.v, {width, width});
    add(name + "to_out.0", a.out, {width, width});
  }
  std::vector<ModelWeight> take() { return std::move(weights_); }

 private:
  std::vector<ModelWeight> weights_;
};

}  // namespace

std::vector<ModelWeight> weights(VaeDecoder& vae) {
  const VaeConfig& c = vae.config;
  const std::int64_t coarsest = c.channels.back(), finest = c.channels.front();
  List out;
  out.conv("post_quant_conv", vae.post_quant, c.latent_channels, c.latent_channels, 1);
  out.conv("decoder.conv_in", vae.conv_in, c.latent_channels, coarsest, 3);
  out.middle("decoder.mid_block", vae.mid_first, vae.attention, vae.mid_second, coarsest);
  vae.levels.resize(c.channels.size());
  std::int64_t in = coarsest;
  for (std::size_t i = 0; i < vae.levels.size(); ++i) {
    VaeLevel& level = vae.levels[i];
    const std::int64_t width = c.channels[c.channels.size() - 1 - i];
    level.resnets.resize(static_cast<std::size_t>(c.layers) + 1);
    for (std::size_t j = 0; j < level.resnets.size(); ++j) {
      out.resnet(fmt::format("decoder.up_blocks.{}.resnets.{}", i, j), level.resnets[j], in, width);
      in = width;
    }
    if (i + 1 < vae.levels.size()) {
      out.conv(fmt::format("decoder.up_blocks.{}.upsamplers.0.conv", i), level.upsample, width,
               width, 3);
    }
  }
  out.add("decoder.conv_norm_out", vae.norm_out, {finest});
  out.conv("decoder.conv_out", vae.conv_out, finest, 3, 3);
  return out.take();
}

std::vector<ModelWeight> weights(VaeEncoder& vae) {
  const VaeConfig& c = vae.config;
  const std::int64_t coarsest = c.channels.back(), both = 2 * c.latent_channels;
  List out;
  out.conv("encoder.conv_in", vae.conv_in, 3, c.channels.front(), 3);
  vae.levels.resize(c.channels.size());
  std::int64_t in = c.channels.front();
  for (std::size_t i = 0; i < vae.levels.size(); ++i) {
    VaeDownLevel& level = vae.levels[i];
    level.resnets.resize(static_cast<std::size_t>(c.layers));
    for (std::size_t j = 0; j < level.resnets.size(); ++j) {
      out.resnet(fmt::format("encoder.down_blocks.{}.resnets.{}", i, j), level.resnets[j], in,
                 c.channels[i]);
      in = c.channels[i];
    }
    const bool attends = !c.down_attention.empty() && c.down_attention[i];
    level.attentions.resize(attends ? level.resnets.size() : 0);
    for (std::size_t j = 0; j < level.attentions.size(); ++j) {
      out.attention(fmt::format("encoder.down_blocks.{}.attentions.{}.", i, j), level.attentions[j],
                    in);
    }
    if (i + 1 < vae.levels.size()) {
      out.conv(fmt::format("encoder.down_blocks.{}.downsamplers.0.conv", i), level.downsample, in,
               in, 3);
    }
  }
  out.middle("encoder.mid_block", vae.mid_first, vae.attention, vae.mid_second, coarsest);
  out.add("encoder.conv_norm_out", vae.norm_out, {coarsest});
  out.conv("encoder.conv_out", vae.conv_out, coarsest, both, 3);
  out.conv("quant_conv", vae.quant, both, both, 1);
  return out.take();
}

}  // namespace forerun
