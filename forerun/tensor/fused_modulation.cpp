#include "forerun/tensor/fused_modulation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "forerun/tensor/internal/rows.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

using internal::has_kernel;
using internal::load_row;
using internal::store_row;
using internal::wide;
using internal::Wide;
using internal::with_types;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The type in which a tensor of x's type is computed.
at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [batch, dim] whose rows are contiguous.
at::Tensor with_rows(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

struct Sizes {
  std::int64_t batch, tokens, dim;
  explicit Sizes(const at::Tensor& x) : batch(x.size(0)), tokens(x.size(1)), dim(x.size(2)) {}
};

// f(b, first, last, room) for pieces of the rows of each member of the batch. Gradients of
// parameters shared by all rows of a member are summed by one thread, in order; the pieces are then
// whole members.
template <class W, class F>
void for_rows(const Sizes& s, bool whole, std::int64_t room, F&& f) {
  const std::int64_t rows = whole ? s.tokens : 16;
  const std::int64_t pieces = (s.tokens + rows - 1) / rows;
  parallel_for(0, s.batch * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<W> space(static_cast<std::size_t>(room * s.dim));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % pieces * rows;
      f(i / pieces, first, std::min(s.tokens, first + rows), space.data());
    }
  });
}

struct NormModulate : torch::autograd::Function<NormModulate> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& shift,
                            const at::Tensor& scale, double eps, at::ScalarType type) {
    const at::Tensor in = x.contiguous(), add = with_rows(shift), times = with_rows(scale);
    const Sizes s(in);
    at::Tensor out = at::empty(in.sizes(), in.options().dtype(type));
    with_types(in.scalar_type(), type, [&](auto a, auto b) {
      using X = decltype(a);
      using Y = decltype(b);
      using W = Wide<X>;
      const X* const from = in.const_data_ptr<X>();
      const W *const adds = add.const_data_ptr<W>(), *const factors = times.const_data_ptr<W>();
      Y* const to = out.mutable_data_ptr<Y>();
      for_rows<W>(s, false, 1, [&](std::int64_t m, std::int64_t first, std::int64_t last, W* row) {
        const W *const c = adds + m * add.stride(0), *const k = factors + m * times.stride(0);
        for (std::int64_t i = m * s.tokens + first; i < m * s.tokens + last; ++i) {
          load_row(from + i * s.dim, s.dim, row);
          internal::norm_modulate(row, k, c, s.dim, eps);
          store_row(row, s.dim, to + i * s.dim);
        }
      });
    });
    ctx->save_for_backward({in, times});
    ctx->saved_data["eps"] = eps;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[1];
    const double eps = ctx->saved_data["eps"].toDouble();
    const at::Tensor dy = grad[0].contiguous();
    const Sizes s(x);
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor dshift = at::zeros({s.batch, s.dim}, scale.options());
    const at::Tensor dscale = at::zeros_like(dshift);
    with_types(x.scalar_type(), dy.scalar_type(), [&](auto a, auto b) {
      using X = decltype(a);
      using Y = decltype(b);
      using W = Wide<X>;
      const X* const from = x.const_data_ptr<X>();
      const Y* const slopes = dy.const_data_ptr<Y>();
      const W* const factors = scale.const_data_ptr<W>();
      X* const to = dx.mutable_data_ptr<X>();
      W *const to_shift = dshift.mutable_data_ptr<W>(), *const to_scale =
                                                            dscale.mutable_data_ptr<W>();
      for_rows<W>(s, true, 2, [&](std::int64_t m, std::int64_t, std::int64_t, W* row) {
        W *const normed = row, *const d = row + s.dim;
        W *const ds = to_shift + m * s.dim, *const dk = to_scale + m * s.dim;
        const W* const k = factors + m * scale.stride(0);
        for (std::int64_t i = m * s.tokens; i < (m + 1) * s.tokens; ++i) {
          load_row(from + i * s.dim, s.dim, normed);
          load_row(slopes + i * s.dim, s.dim, d);
          internal::norm_modulate_backward(normed, k, s.dim, eps, d, dk, ds);
          store_row(d, s.dim, to + i * s.dim);
        }
      });
    });
    return {dx, dshift, dscale, {}, {}};
  }
};

struct GatedSum : torch::autograd::Function<GatedSum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gate,
                            const at::Tensor& y) {
    const at::Tensor in = x.contiguous(), gates = with_rows(gate), more = y.contiguous();
    const Sizes s(in);
    at::Tensor out = at::empty_like(in);
    with_types(in.scalar_type(), more.scalar_type(), [&](auto a, auto b) {
      using X = decltype(a);
      using Y = decltype(b);
      using W = Wide<X>;
      const X* const from = in.const_data_ptr<X>();
      const Y* const add = more.const_data_ptr<Y>();
      const W* const all = gates.const_data_ptr<W>();
      X* const to = out.mutable_data_ptr<X>();
      for_rows<W>(s, false, 2, [&](std::int64_t m, std::int64_t first, std::int64_t last, W* row) {
        W* const other = row + s.dim;
        const W* const g = all + m * gates.stride(0);
        for (std::int64_t i = m * s.tokens + first; i < m * s.tokens + last; ++i) {
          load_row(from + i * s.dim, s.dim, row);
          load_row(add + i * s.dim, s.dim, other);
          internal::gated_sum(row, g, other, s.dim);
          store_row(row, s.dim, to + i * s.dim);
        }
      });
    });
    ctx->save_for_backward({gates, more});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &y = saved[1];
    const at::Tensor dout = grad[0].contiguous();
    const Sizes s(y);
    const at::Tensor dy = at::empty_like(y), dgate = at::zeros({s.batch, s.dim}, gate.options());
    with_types(dout.scalar_type(), y.scalar_type(), [&](auto a, auto b) {
      using X = decltype(a);
      using Y = decltype(b);
      using W = Wide<X>;
      const X* const slopes = dout.const_data_ptr<X>();
      const Y* const from = y.const_data_ptr<Y>();
      const W* const all = gate.const_data_ptr<W>();
      Y* const to = dy.mutable_data_ptr<Y>();
      W* const to_gate = dgate.mutable_data_ptr<W>();
      for_rows<W>(s, true, 2, [&](std::int64_t m, std::int64_t, std::int64_t, W* row) {
        W *const d = row, *const values = row + s.dim, *const dg = to_gate + m * s.dim;
        const W* const g = all + m * gate.stride(0);
        for (std::int64_t i = m * s.tokens; i < (m + 1) * s.tokens; ++i) {
          load_row(slopes + i * s.dim, s.dim, d);
          load_row(from + i * s.dim, s.dim, values);
          internal::gated_sum_backward(d, g, values, s.dim, dg);
          store_row(d, s.dim, to + i * s.dim);
        }
      });
    });
    return {dout, dgate, dy};
  }
};

}  // namespace

at::Tensor fused_layer_norm_modulate(const at::Tensor& x, const at::Tensor& shift,
                                     const at::Tensor& scale, double eps, at::ScalarType type) {
  const auto fits = wide_type(x);
  if (has_kernel(x) && x.dim() == 3 && shift.scalar_type() == fits && scale.scalar_type() == fits &&
      (type == fits || (type == at::kBFloat16 && fits == at::kFloat))) {
    return NormModulate::apply(x, shift, scale, eps, type);
  }
  const at::Tensor values = at::layer_norm(wide(x), {x.size(-1)}, {}, {}, eps);
  return (values * (scale.unsqueeze(1) + 1.0) + shift.unsqueeze(1)).to(type);
}

at::Tensor fused_gated_sum(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y) {
  const bool pair = y.scalar_type() == x.scalar_type() ||
                    (x.scalar_type() == at::kFloat && y.scalar_type() == at::kBFloat16);
  if (has_kernel(x) && x.dim() == 3 && x.scalar_type() != at::kBFloat16 &&
      gate.scalar_type() == x.scalar_type() && pair) {
    return GatedSum::apply(x, gate, y);
  }
  return x + (gate.unsqueeze(1) * y).to(x.scalar_type());
}

}  // namespace forerun
