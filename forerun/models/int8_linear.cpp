#include "forerun/models/int8_linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace forerun {
namespace {

using Parts = std::initializer_list<const Linear*>;

bool in_groups(const Linear& l) {
  return l.stored != nullptr && has_four_bit_groups(l.stored->dtype()) &&
         l.stored->columns() % FourBitGroup::kNumbers == 0;
}

// Whether one matrix of groups can hold all of them.
bool in_like_groups(Parts parts) {
  const Linear& first = **parts.begin();  // it is looked at first, so that it has a type then
  return std::all_of(parts.begin(), parts.end(), [&](const Linear* l) {
    return in_groups(*l) &&
           kind_of_levels(l->stored->dtype()) == kind_of_levels(first.stored->dtype());
  });
}

at::Tensor bias_of(Parts parts, const OutputOrder* order) {
  std::vector<at::Tensor> biases;
  for (const Linear* part : parts) {
    if (part->bias.defined()) biases.push_back(plain_values(part->bias));
  }
  if (biases.empty()) return {};
  const at::Tensor all = at::cat(biases);
  return order != nullptr ? order->of(all) : all;
}

// Nothing if a scale or a least value is too large for float16.
std::optional<Int8Matrix> pack_groups(Parts parts, const OutputOrder* order, Arena& arena) {
  constexpr float kMostHalf = 65504.0F;
  std::atomic<bool> fits = true;
  std::int64_t outputs = 0;
  for (const Linear* part : parts) outputs += part->stored->rows();
  const auto groups = [&](std::int64_t row, std::span<FourBitGroup> out) {
    if (order != nullptr) row = order->from(row);
    if (row < 0) return false;
    const auto* part = parts.begin();
    for (; row >= (*part)->stored->rows(); ++part) row -= (*part)->stored->rows();
    four_bit_groups((*part)->stored->dtype(), (*part)->stored->row(row), out);
    for (const FourBitGroup& g : out) {
      const float most = std::max(std::abs(g.scale), std::abs(g.least));
      if (most > kMostHalf && std::isfinite(most)) fits = false;
    }
    return true;
  };
  Int8Matrix packed = Int8Matrix::pack_groups(
      order != nullptr ? order->outputs : outputs, (*parts.begin())->stored->columns(), groups,
      kind_of_levels((*parts.begin())->stored->dtype()), bias_of(parts, order), arena);
  return fits ? std::optional(std::move(packed)) : std::nullopt;
}

at::Tensor values_of(Parts parts) {
  if (std::none_of(parts.begin(), parts.end(), [](const Linear* l) { return l->stored; })) {
    return plain_values(joined(parts).weight);
  }
  std::vector<at::Tensor> all;
  for (const Linear* l : parts) {
    all.push_back(l->stored != nullptr ? l->stored->unpacked() : plain_values(l->weight));
  }
  return all.size() == 1 ? all[0] : at::cat(all);
}

}  // namespace

at::Tensor plain_values(const at::Tensor& t) {
  return t.defined() ? t.detach().to(at::kFloat).contiguous() : t;
}

RmsNorm plain_values(const RmsNorm& norm) { return {plain_values(norm.weight), norm.eps}; }

at::Tensor OutputOrder::of(const at::Tensor& rows) const {
  const at::Tensor in = rows.contiguous();
  std::vector<std::int64_t> sizes = in.sizes().vec();
  const std::int64_t width = in.numel() / sizes[0];
  sizes[0] = outputs;
  at::Tensor out = at::zeros(sizes, at::kFloat);
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t row = from(i);
    if (row < 0) continue;
    std::copy_n(in.const_data_ptr<float>() + row * width, width, out.data_ptr<float>() + i * width);
  }
  return out;
}

Int8Matrix pack_linear(Parts parts, const OutputOrder* order, Arena& arena) {
  if (in_like_groups(parts)) {
    if (std::optional<Int8Matrix> packed = pack_groups(parts, order, arena)) {
      return *std::move(packed);
    }
  }
  const at::Tensor weights = values_of(parts);
  return Int8Matrix::pack(order != nullptr ? order->of(weights) : weights, bias_of(parts, order),
                          arena);
}

}  // namespace forerun
