#include "forerun/tensor/linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace forerun {
namespace {

using Parts = std::initializer_list<const Linear*>;

// True if the weights lie one after another in memory.
bool side_by_side(Parts parts) {
  const at::Tensor& first = (*parts.begin())->weight;
  if (!first.defined()) return false;
  std::int64_t end = first.storage_offset();
  return std::all_of(parts.begin(), parts.end(), [&](const Linear* part) {
    const at::Tensor& w = part->weight;
    const bool next = w.is_contiguous() && w.is_alias_of(first) && w.storage_offset() == end;
    end += w.numel();
    return next;
  });
}

}  // namespace

at::Tensor Linear::operator()(const at::Tensor& x) const {
  if (stored) {
    const at::Tensor out = stored->multiply(x);
    return bias.defined() ? out + bias : out;
  }
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

Linear joined(Parts parts) {
  std::vector<at::Tensor> weights, biases;
  std::int64_t outputs = 0;
  for (const Linear* part : parts) {
    outputs += part->weight.size(0);
    weights.push_back(part->weight);
    if (part->bias.defined()) biases.push_back(part->bias);
  }
  return {side_by_side(parts)
              ? weights[0].as_strided({outputs, weights[0].size(1)}, weights[0].strides())
              : at::cat(weights),
          biases.empty() ? at::Tensor() : at::cat(biases)};
}

std::vector<at::Tensor> products(const at::Tensor& x, Parts parts) {
  const bool learns =
      at::GradMode::is_enabled() && std::any_of(parts.begin(), parts.end(), [](const Linear* part) {
        return part->weight.requires_grad() || part->bias.requires_grad();
      });
  std::vector<at::Tensor> out;
  if (learns || !side_by_side(parts)) {
    for (const Linear* part : parts) out.push_back((*part)(x));
    return out;
  }
  std::vector<std::int64_t> widths;
  for (const Linear* part : parts) widths.push_back(part->weight.size(0));
  return joined(parts)(x).split_with_sizes(widths, 1);
}

at::ScalarType product_type(const at::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

}  // namespace forerun
