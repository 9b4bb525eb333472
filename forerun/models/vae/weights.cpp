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
  out.resnet("decoder.mid_block.resnets.0", vae.mid_first, coarsest, coarsest);
  const std::string attention = "decoder.mid_block.attentions.0.";
  out.add(attention + "group_norm", vae.attention.norm, {coarsest});
  out.add(attention + "to_q", vae.attention.q, {coarsest, coarsest});
  out.add(attention + "to_k", vae.attention.k, {coarsest, coarsest});
  out.add(attention + "to_v", vae.attention.v, {coarsest, coarsest});
  out.add(attention + "to_out.0", vae.attention.out, {coarsest, coarsest});
  out.resnet("decoder.mid_block.resnets.1", vae.mid_second, coarsest, coarsest);
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

}  // namespace forerun
