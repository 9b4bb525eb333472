#include "forerun/tensor/linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace forerun {
namespace {

// The tensors one after another along their first dimension, as a view; undefined if they lie
// elsewhere.
at::Tensor view_of(const std::vector<at::Tensor>& parts) {
  std::int64_t end = parts[0].storage_offset();
  std::vector<std::int64_t> sizes = parts[0].sizes().vec();
  sizes[0] = 0;
  for (const at::Tensor& t : parts) {
    if (!t.is_contiguous() || !t.is_alias_of(parts[0]) || t.storage_offset() != end) return {};
    end += t.numel();
    sizes[0] += t.size(0);
  }
  return parts[0].as_strided(sizes, parts[0].strides());
}

std::vector<at::Tensor> each(std::initializer_list<const Linear*> parts, at::Tensor Linear::*what) {
  std::vector<at::Tensor> out;
  for (const Linear* part : parts) out.push_back(part->*what);
  return out;
}

// As one layer without a copy; the weight is undefined if that cannot be.
Linear joined_view(std::initializer_list<const Linear*> parts) {
  Linear out{.weight = view_of(each(parts, &Linear::weight)), .bias = {}};
  const bool biased = std::any_of(parts.begin(), parts.end(),
                                  [](const Linear* part) { return part->bias.defined(); });
  if (biased && out.weight.defined()) {
    out.bias = view_of(each(parts, &Linear::bias));
    if (!out.bias.defined()) out.weight = at::Tensor();
  }
  return out;
}

}  // namespace

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

Linear joined(std::initializer_list<const Linear*> parts) {
  Linear out = joined_view(parts);
  if (out.weight.defined()) return out;
  out.weight = at::cat(each(parts, &Linear::weight));
  if ((*parts.begin())->bias.defined()) out.bias = at::cat(each(parts, &Linear::bias));
  return out;
}

std::vector<at::Tensor> products(const at::Tensor& x, std::initializer_list<const Linear*> parts) {
  const bool learns = at::GradMode::is_enabled() &&
                      std::any_of(parts.begin(), parts.end(),
                                  [](const Linear* part) { return part->weight.requires_grad(); });
  const Linear one = learns ? Linear{} : joined_view(parts);
  std::vector<at::Tensor> out;
  if (!one.weight.defined()) {
    for (const Linear* part : parts) out.push_back((*part)(x));
    return out;
  }
  const at::Tensor all = one(x);
  std::int64_t first = 0;
  for (const Linear* part : parts) {
    out.push_back(all.narrow(1, first, part->weight.size(0)));
    first += part->weight.size(0);
  }
  return out;
}

at::ScalarType product_type(const at::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

}  // namespace forerun
