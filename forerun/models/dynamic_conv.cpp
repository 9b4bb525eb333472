#include "forerun/models/dynamic_conv.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace forerun {

at::Tensor DynamicConv::deltas(const BlockConfig& c, const at::Tensor& x) const {
  return at::linear(x, projection).view({x.size(0), 2, c.conv_taps, c.hidden / c.conv_group});
}

at::Tensor DynamicConv::operator()(const at::Tensor& x, const at::Tensor& deltas, std::int64_t side,
                                   std::int64_t run) const {
  const std::int64_t groups = deltas.size(3), width = x.size(1) / groups;
  const at::Tensor rows = x.view({-1, run, groups, width});
  const at::Tensor own = deltas.select(1, side).view({-1, run, deltas.size(2), groups, 1});
  at::Tensor out;
  for (std::int64_t o = 0; o < std::min(deltas.size(2), run); ++o) {
    const at::Tensor kernel =
        base.select(0, side).select(0, o).view({groups, width}) + own.select(2, o);
    const at::Tensor values =
        o == 0 ? rows : at::constant_pad_nd(rows.narrow(1, 0, run - o), {0, 0, 0, 0, o, 0});
    out = out.defined() ? out + kernel * values : kernel * values;
  }
  return out.view(x.sizes()).to(x.scalar_type());
}

void add_weights(DynamicConv& conv, const BlockConfig& c, const std::string& prefix,
                 std::vector<ModelWeight>& out) {
  out.push_back({prefix + ".base_kernel", &conv.base, {2, c.conv_taps, c.hidden}});
  out.push_back(
      {prefix + ".kernel_projection.weight", &conv.projection, {c.conv_outputs(), c.hidden}});
}

void make_identity(DynamicConv& conv, const BlockConfig& c) {
  conv.base = at::zeros({2, c.conv_taps, c.hidden}, at::kFloat);
  conv.base.select(1, 0).fill_(1.0);
  conv.projection = at::zeros({c.conv_outputs(), c.hidden}, at::kFloat);
}

}  // namespace forerun
