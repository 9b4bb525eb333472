#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/models/mar/mar_head.h"

namespace forerun {

/// The masked form's backbone: conditions of all tokens, given those that are known (Li et al.
/// 2024, arXiv:2406.11838, section 3.4).
/// @param tokens  [batch, tokens, dim]; those that are not known are not read
/// @param known   [batch, tokens] bool, as many in every image
/// @param label   [batch] int64, `classes` for none
/// @return        [batch, tokens, hidden]
/// @throws std::invalid_argument  another form or other shapes
at::Tensor run_masked(const Mar& model, const at::Tensor& tokens, const at::Tensor& known,
                      const at::Tensor& label);

/// How many tokens are unknown after each step of the loop: floor(tokens cos(pi/2 (s + 1) /
/// steps)), at least 1 and fewer than before it; 0 after the last.
std::vector<std::int64_t> unknown_after(std::int64_t tokens, std::int64_t steps);

/// A random order of `tokens` tokens, a pure function of the key.
std::vector<std::int64_t> random_order(std::int64_t tokens, const RngKey& key);

/// How the guidance changes over the loop.
enum class MarGuidance : std::uint8_t {
  kConstant,
  kLinear,  ///< 1 + (guidance - 1) times the share that is known after a step, its last excepted
};

struct MaskedSampling {
  std::int64_t steps = 64;
  double guidance = 1.0;
  MarGuidance schedule = MarGuidance::kLinear;
};

/// Scale of the guidance in a step that leaves `unknown` tokens, at least 1 of them counted.
double guidance_after(const MaskedSampling& sampling, std::int64_t unknown, std::int64_t tokens);

/// Fills a standard normal vector: of a token's first state (transition -1), or of what a
/// transition adds.
using MarNoise = std::function<void(std::int64_t image, std::int64_t step, std::int64_t token,
                                    std::int64_t transition, std::span<float> out)>;

/// Samples images by the published loop: a step draws the tokens that the order has last among the
/// unknown ones, each from its own chain.
/// @param head    of a MarNetwork of the same model
/// @param labels  of the images
/// @param orders  of each image's tokens
/// @param show    called after each step with all tokens, [images, tokens, dim]; may be empty
/// @return        [images, tokens, dim] float32
/// @throws std::invalid_argument  orders or labels that do not fit, or too many steps
at::Tensor sample_masked(const Mar& model, const MarNetwork& network, const MarHead& head,
                         std::span<const std::int64_t> labels,
                         std::span<const std::vector<std::int64_t>> orders,
                         const MaskedSampling& sampling, const MarNoise& noise,
                         const std::function<void(const at::Tensor&)>& show = {});

}  // namespace forerun
