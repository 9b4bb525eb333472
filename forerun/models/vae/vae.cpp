#include "forerun/models/vae/vae.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace forerun {
namespace {

constexpr double kVaeNormEps = 1e-6;

at::Tensor conv(const VaeAffine& w, const at::Tensor& x) {
  const std::int64_t side = w.weight.size(2);
  return at::conv2d(x, w.weight, w.bias, /*stride=*/1, /*padding=*/side / 2);
}

// x [1, channels, h, w]
at::Tensor norm(const VaeConfig& c, const VaeAffine& w, const at::Tensor& x) {
  return at::group_norm(x, c.norm_groups, w.weight, w.bias, kVaeNormEps);
}

at::Tensor run(const VaeConfig& c, const VaeResnet& r, const at::Tensor& x) {
  at::Tensor h = conv(r.conv1, at::silu(norm(c, r.norm1, x)));
  h = conv(r.conv2, at::silu(norm(c, r.norm2, h)));
  return (r.shortcut.weight.defined() ? conv(r.shortcut, x) : x) + h;
}

at::Tensor run(const VaeConfig& c, const VaeAttention& a, const at::Tensor& x) {
  const at::Tensor rows = norm(c, a.norm, x).flatten(2).transpose(1, 2).unsqueeze(1);
  const auto product = [](const VaeAffine& w, const at::Tensor& y) {
    return at::linear(y, w.weight, w.bias);
  };
  const at::Tensor attended =
      at::scaled_dot_product_attention(product(a.q, rows), product(a.k, rows), product(a.v, rows));
  return x + product(a.out, attended).squeeze(1).transpose(1, 2).view_as(x);
}

at::Tensor run(const VaeConfig& c, const VaeResnet& first, const VaeAttention& attention,
               const VaeResnet& second, const at::Tensor& x) {
  return run(c, second, run(c, attention, run(c, first, x)));
}

// latents [1, latent_channels, h, w] as the encoder gives them; [1, 3, scale h, scale w]
at::Tensor decode_one(const VaeDecoder& vae, const at::Tensor& latents) {
  const VaeConfig& c = vae.config;
  at::Tensor x = conv(vae.conv_in, conv(vae.post_quant, latents));
  x = run(c, vae.mid_first, vae.attention, vae.mid_second, x);
  for (const VaeLevel& level : vae.levels) {
    for (const VaeResnet& resnet : level.resnets) x = run(c, resnet, x);
    if (!level.upsample.weight.defined()) continue;
    x = conv(level.upsample, at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)}));
  }
  return conv(vae.conv_out, at::silu(norm(c, vae.norm_out, x)));
}

// image [1, 3, scale h, scale w]; [1, 2 latent_channels, h, w]
at::Tensor encode_one(const VaeEncoder& vae, const at::Tensor& image) {
  const VaeConfig& c = vae.config;
  at::Tensor x = conv(vae.conv_in, image);
  for (const VaeDownLevel& level : vae.levels) {
    for (std::size_t i = 0; i < level.resnets.size(); ++i) {
      x = run(c, level.resnets[i], x);
      if (!level.attentions.empty()) x = run(c, level.attentions[i], x);
    }
    if (!level.downsample.weight.defined()) continue;
    // One row and one column more, right and below alone.
    x = at::conv2d(at::constant_pad_nd(x, {0, 1, 0, 1}), level.downsample.weight,
                   level.downsample.bias, /*stride=*/2);
  }
  x = run(c, vae.mid_first, vae.attention, vae.mid_second, x);
  return conv(vae.quant, conv(vae.conv_out, at::silu(norm(c, vae.norm_out, x))));
}

std::string shape_of(const at::Tensor& x) {
  if (!x.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(x.scalar_type()), fmt::join(x.sizes().vec(), ", "));
}

}  // namespace

LatentLaw encode(const VaeEncoder& vae, const at::Tensor& images) {
  const VaeConfig& c = vae.config;
  if (!images.defined() || images.dim() != 4 || images.size(1) != 3 || images.numel() == 0 ||
      !images.is_floating_point() || images.size(2) % c.scale() != 0 ||
      images.size(3) % c.scale() != 0) {
    throw std::invalid_argument(
        fmt::format("encode: images of {}; give floating point of [n, 3, height, width], the sides "
                    "multiples of {}",
                    shape_of(images), c.scale()));
  }
  const at::Tensor& like = vae.conv_in.weight;
  const at::Tensor mean = at::empty(
      {images.size(0), c.latent_channels, images.size(2) / c.scale(), images.size(3) / c.scale()},
      like.options().dtype(at::kFloat));
  const at::Tensor deviation = at::empty_like(mean);
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const at::Tensor one =
        images.narrow(0, i, 1).to(like.options()).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor both = encode_one(vae, one).to(at::kFloat);
    mean.narrow(0, i, 1).copy_(both.narrow(1, 0, c.latent_channels) * c.scaling_factor);
    deviation.narrow(0, i, 1).copy_(
        (0.5 * both.narrow(1, c.latent_channels, c.latent_channels).clamp(-30.0, 20.0)).exp() *
        c.scaling_factor);
  }
  return {mean, deviation};
}

at::Tensor decode(const VaeDecoder& vae, const at::Tensor& latents) {
  const VaeConfig& c = vae.config;
  if (!latents.defined() || latents.dim() != 4 || latents.size(1) != c.latent_channels ||
      latents.numel() == 0 || !latents.is_floating_point()) {
    throw std::invalid_argument(
        fmt::format("decode: latents of {}; give floating point of [n, {}, h, w]",
                    shape_of(latents), c.latent_channels));
  }
  const at::Tensor& like = vae.conv_in.weight;
  at::Tensor out =
      at::empty({latents.size(0), 3, c.scale() * latents.size(2), c.scale() * latents.size(3)},
                like.options().dtype(at::kFloat));
  // Divided before rounding to the decoder's type.
  const at::Tensor scaled =
      (latents.to(at::promote_types(latents.scalar_type(), at::kFloat)) / c.scaling_factor)
          .to(like.options());
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    // Channels last: on AMX 15% less time than planes in bfloat16, 4% in float32.
    const at::Tensor one = scaled.narrow(0, i, 1).contiguous(at::MemoryFormat::ChannelsLast);
    out.narrow(0, i, 1).copy_(decode_one(vae, one));
  }
  return out;
}

at::Tensor image_bytes(const at::Tensor& images) {
  if (!images.defined() || images.dim() != 4 || !images.is_floating_point()) {
    throw std::invalid_argument("image_bytes: give floating point of [n, channels, height, width]");
  }
  if (!images.isfinite().all().item<bool>()) {
    throw std::invalid_argument(
        "image_bytes: an image holds values that are no numbers; decode in float32, and look at "
        "the latents");
  }
  const at::Tensor x = images.to(at::promote_types(images.scalar_type(), at::kFloat));
  return (x * 127.5 + 128.0)
      .clamp(0, 255)
      .to(at::kCPU, at::kByte)
      .permute({0, 2, 3, 1})
      .contiguous();
}

}  // namespace forerun
