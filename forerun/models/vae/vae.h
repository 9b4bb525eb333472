#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "forerun/models/model_weight.h"
#include "forerun/models/vae/vae_config.h"

namespace forerun {

/// A weight with its bias: of a convolution [out, in, k, k], a product [out, in] or a norm
/// [channels]; the bias is [out] or [channels].
struct VaeAffine {
  at::Tensor weight, bias;
};

/// Two convolutions, each after a norm and SiLU, added to the input.
struct VaeResnet {
  VaeAffine norm1, conv1;  ///< 3x3, in to out
  VaeAffine norm2, conv2;  ///< 3x3, out to out
  VaeAffine shortcut;      ///< 1x1, in to out; undefined where both are equal
};

/// Attention of every latent to every other in one head, added to the input.
struct VaeAttention {
  VaeAffine norm, q, k, v, out;  ///< products [channels, channels]
};

/// One level.
struct VaeLevel {
  std::vector<VaeResnet> resnets;
  VaeAffine upsample;  ///< 3x3, after doubling both sides; undefined in the last level
};

/// The decoder half of an AutoencoderKL. All tensors are of one dtype and on one device.
struct VaeDecoder {
  VaeConfig config;
  VaeAffine post_quant;  ///< 1x1, among the latent channels
  VaeAffine conv_in;     ///< 3x3, from them to the width of the coarsest level
  VaeResnet mid_first, mid_second;
  VaeAttention attention;        ///< between the two
  std::vector<VaeLevel> levels;  ///< coarsest first: config.channels reversed
  VaeAffine norm_out, conv_out;  ///< 3x3, to red, green and blue
};

/// One level of the encoder.
struct VaeDownLevel {
  std::vector<VaeResnet> resnets;
  std::vector<VaeAttention> attentions;  ///< after each resnet, or none
  VaeAffine downsample;                  ///< 3x3 with a stride of 2; undefined in the last level
};

/// The encoder half. All tensors are of one dtype and on one device.
struct VaeEncoder {
  VaeConfig config;
  VaeAffine conv_in;                 ///< 3x3, from red, green and blue to the finest level's width
  std::vector<VaeDownLevel> levels;  ///< finest first
  VaeResnet mid_first, mid_second;
  VaeAttention attention;        ///< between the two
  VaeAffine norm_out, conv_out;  ///< 3x3, to means and logarithms of variances
  VaeAffine quant;               ///< 1x1, among both
};

/// All weights by the current names of diffusers, in a fixed order. Creates missing levels and
/// resnets from the config.
std::vector<ModelWeight> weights(VaeDecoder& vae);
std::vector<ModelWeight> weights(VaeEncoder& vae);

/// Reads config.json and diffusion_pytorch_model.safetensors of a folder of diffusers, or of the
/// vae/ folder in it where `path` is a whole pipeline. The attention may have its older names
/// (query, key, value, proj_attn); the other half's tensors are ignored.
/// @param type  of all tensors: float32, float64 or bfloat16; float16 overflows in published VAEs
/// @throws FormatError            the folder, then what is wrong: another network, half a file, a
///                                tensor missing, unknown, of another shape, or not finite
/// @throws std::invalid_argument  another type
VaeDecoder load_vae(const std::filesystem::path& path, at::ScalarType type = at::kFloat,
                    at::Device device = at::kCPU);
/// As load_vae.
VaeEncoder load_vae_encoder(const std::filesystem::path& path, at::ScalarType type = at::kFloat,
                            at::Device device = at::kCPU);

/// The law of an image's latents: independent Gaussians.
struct LatentLaw {
  at::Tensor mean, deviation;  ///< [n, latent_channels, h, w] float32
};

/// Encodes images to the laws of their latents, scaled by config.scaling_factor as diffusion models
/// take them; one image at a time, as `decode`. Logarithms of variances are held within -30 and 20.
/// @param images  [n, 3, scale() h, scale() w] of any floating type and device in [-1, 1]
/// @throws std::invalid_argument  another shape or type
LatentLaw encode(const VaeEncoder& vae, const at::Tensor& images);

/// Decodes latents to images, one at a time, so that an image does not depend on its batch and
/// memory does not grow with it.
/// @param latents  [n, latent_channels, h, w] of any floating type and device, n, h, w >= 1; scaled
///                 by config.scaling_factor, as in a diffusion model
/// @return         [n, 3, scale() h, scale() w] float32 on the decoder's device; -1 is black and 1
///                 white, not clamped
/// @throws std::invalid_argument  another shape or type
at::Tensor decode(const VaeDecoder& vae, const at::Tensor& latents);

/// Pixels as in files: 127.5 x + 128, clamped to 0..255, the fraction cut off.
/// Source: facebookresearch/DiT, sample_ddp.py.
/// @param images  [n, channels, height, width] of any floating type
/// @return        [n, height, width, channels] uint8 on the CPU
/// @throws std::invalid_argument  another shape or type, or values that are not finite
at::Tensor image_bytes(const at::Tensor& images);

}  // namespace forerun
