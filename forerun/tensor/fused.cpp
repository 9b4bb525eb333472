#include "forerun/tensor/fused.h"

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
using internal::with_type;
using internal::with_types;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows whose gradients are summed by one thread; the partial sums are added in order.
constexpr std::int64_t kChunkRows = 256;

// Calls f(begin, end, partial) for chunks of rows, `partial` a zeroed row of `n`; sums the
// partials.
template <class W, class F>
void with_partials(std::int64_t rows, std::int64_t n, W* total, F&& f) {
  const std::int64_t chunks = (rows + kChunkRows - 1) / kChunkRows;
  std::vector<W> partials(static_cast<std::size_t>(chunks * n), W(0));
  parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) {
      f(c * kChunkRows, std::min(rows, (c + 1) * kChunkRows), partials.data() + c * n);
    }
  });
  for (std::int64_t c = 0; c < chunks; ++c) {
    for (std::int64_t i = 0; i < n; ++i) total[i] += partials[static_cast<std::size_t>(c * n + i)];
  }
}

template <class X, class Y>
void norm_rows(const at::Tensor& x, const at::Tensor& w, double eps, const at::Tensor& y) {
  const std::int64_t n = w.numel(), rows = x.numel() / n;
  const auto* from = x.const_data_ptr<X>();
  const auto* weight = w.const_data_ptr<Wide<X>>();
  auto* to = y.mutable_data_ptr<Y>();
  parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Wide<X>> row(static_cast<std::size_t>(n));
    for (std::int64_t i = begin; i < end; ++i) {
      load_row(from + i * n, n, row.data());
      internal::rms_norm(row.data(), weight, n, eps);
      store_row(row.data(), n, to + i * n);
    }
  });
}

template <class X, class Y>
void norm_rows_backward(const at::Tensor& x, const at::Tensor& w, double eps, const at::Tensor& dy,
                        const at::Tensor& dx, const at::Tensor& dw) {
  using W = Wide<X>;
  const std::int64_t n = w.numel(), rows = x.numel() / n;
  const auto* from = x.const_data_ptr<X>();
  const auto* weight = w.const_data_ptr<W>();
  const auto* slope = dy.const_data_ptr<Y>();
  auto* to = dx.mutable_data_ptr<X>();
  with_partials(rows, n, dw.mutable_data_ptr<W>(),
                [&](std::int64_t begin, std::int64_t end, W* partial) {
                  std::vector<W> row(static_cast<std::size_t>(2 * n));
                  W* const in = row.data();
                  W* const out = in + n;
                  for (std::int64_t i = begin; i < end; ++i) {
                    load_row(from + i * n, n, in);
                    load_row(slope + i * n, n, out);
                    internal::rms_norm_backward(in, weight, n, eps, out, partial);
                    store_row(out, n, to + i * n);
                  }
                });
}

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            double eps, at::ScalarType type) {
    const at::Tensor in = x.contiguous();
    at::Tensor out = at::empty(in.sizes(), in.options().dtype(type));
    with_types(in.scalar_type(), type,
               [&](auto a, auto b) { norm_rows<decltype(a), decltype(b)>(in, weight, eps, out); });
    ctx->save_for_backward({in, weight});
    ctx->saved_data["eps"] = eps;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const double eps = ctx->saved_data["eps"].toDouble();
    const at::Tensor dy = grad[0].contiguous();
    at::Tensor dx = at::empty_like(x), dw = at::zeros_like(weight);
    with_types(x.scalar_type(), dy.scalar_type(), [&](auto a, auto b) {
      norm_rows_backward<decltype(a), decltype(b)>(x, weight, eps, dy, dx, dw);
    });
    return {dx, dw, {}, {}};
  }
};

struct NormRotate : torch::autograd::Function<NormRotate> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            double eps, const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor in = x.contiguous();
    const std::int64_t dim = weight.numel(), rows = in.size(0);
    const std::int64_t heads = in.size(1) / dim, half = dim / 2;
    at::Tensor out = at::empty({rows, heads, dim}, in.options());
    with_type(in.scalar_type(), [&](auto tag) {
      using X = decltype(tag);
      using W = Wide<X>;
      const auto* from = in.const_data_ptr<X>();
      auto* to = out.mutable_data_ptr<X>();
      const auto *w = weight.const_data_ptr<W>(), *c = cos.const_data_ptr<W>(),
                 *s = sin.const_data_ptr<W>();
      parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
        std::vector<W> head(static_cast<std::size_t>(dim));
        for (std::int64_t i = begin * heads; i < end * heads; ++i) {
          load_row(from + i * dim, dim, head.data());
          internal::rms_norm(head.data(), w, dim, eps);
          internal::rotate(head.data(), c + i / heads * half, s + i / heads * half, half, W(1));
          store_row(head.data(), dim, to + i * dim);
        }
      });
    });
    ctx->save_for_backward({in, weight, cos, sin});
    ctx->saved_data["eps"] = eps;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &cos = saved[2], &sin = saved[3];
    const double eps = ctx->saved_data["eps"].toDouble();
    const at::Tensor dy = grad[0].to(x.scalar_type()).contiguous();
    at::Tensor dx = at::empty_like(x), dw = at::zeros_like(weight);
    const std::int64_t dim = weight.numel(), heads = x.size(1) / dim, half = dim / 2;
    with_type(x.scalar_type(), [&](auto tag) {
      using X = decltype(tag);
      using W = Wide<X>;
      const auto *from = x.const_data_ptr<X>(), *slope = dy.const_data_ptr<X>();
      auto* to = dx.mutable_data_ptr<X>();
      const auto *w = weight.const_data_ptr<W>(), *c = cos.const_data_ptr<W>(),
                 *s = sin.const_data_ptr<W>();
      with_partials(x.size(0), dim, dw.mutable_data_ptr<W>(),
                    [&](std::int64_t begin, std::int64_t end, W* partial) {
                      std::vector<W> head(static_cast<std::size_t>(2 * dim));
                      W* const in = head.data();
                      W* const out = in + dim;
                      for (std::int64_t i = begin * heads; i < end * heads; ++i) {
                        load_row(from + i * dim, dim, in);
                        load_row(slope + i * dim, dim, out);
                        internal::rotate(out, c + i / heads * half, s + i / heads * half, half,
                                         W(-1));
                        internal::rms_norm_backward(in, w, dim, eps, out, partial);
                        store_row(out, dim, to + i * dim);
                      }
                    });
    });
    return {dx, dw, {}, {}, {}};
  }
};

// Elements of one piece of work, which fits the first-level cache.
constexpr std::int64_t kPieceLength = 1024;

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up) {
    const at::Tensor g = gate.contiguous(), u = up.contiguous();
    at::Tensor out = at::empty_like(g);
    with_type(g.scalar_type(), [&](auto tag) {
      using X = decltype(tag);
      using W = Wide<X>;
      const auto *gates = g.const_data_ptr<X>(), *ups = u.const_data_ptr<X>();
      auto* to = out.mutable_data_ptr<X>();
      const std::int64_t n = g.numel();
      parallel_for(0, (n + kPieceLength - 1) / kPieceLength, 8,
                   [&](std::int64_t begin, std::int64_t end) {
                     W a[kPieceLength], b[kPieceLength];
                     for (std::int64_t p = begin; p < end; ++p) {
                       const std::int64_t first = p * kPieceLength,
                                          count = std::min(kPieceLength, n - first);
                       load_row(gates + first, count, a);
                       load_row(ups + first, count, b);
                       internal::swiglu(a, b, count);
                       store_row(b, count, to + first);
                     }
                   });
    });
    ctx->save_for_backward({g, u});
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &g = saved[0], &u = saved[1];
    const at::Tensor dy = grad[0].to(g.scalar_type()).contiguous();
    at::Tensor dg = at::empty_like(g), du = at::empty_like(u);
    with_type(g.scalar_type(), [&](auto tag) {
      using X = decltype(tag);
      using W = Wide<X>;
      const auto *gates = g.const_data_ptr<X>(), *ups = u.const_data_ptr<X>(),
                 *slope = dy.const_data_ptr<X>();
      auto *to_gate = dg.mutable_data_ptr<X>(), *to_up = du.mutable_data_ptr<X>();
      const std::int64_t n = g.numel();
      parallel_for(0, (n + kPieceLength - 1) / kPieceLength, 8,
                   [&](std::int64_t begin, std::int64_t end) {
                     W a[kPieceLength], b[kPieceLength], d[kPieceLength];
                     for (std::int64_t p = begin; p < end; ++p) {
                       const std::int64_t first = p * kPieceLength,
                                          count = std::min(kPieceLength, n - first);
                       load_row(gates + first, count, a);
                       load_row(ups + first, count, b);
                       load_row(slope + first, count, d);
                       internal::swiglu_backward(a, b, d, count);
                       store_row(a, count, to_gate + first);
                       store_row(b, count, to_up + first);
                     }
                   });
    });
    return {dg, du};
  }
};

// f(values, count, first) for pieces that fit the first-level cache, and stores them.
template <class X, class F>
void elementwise(const at::Tensor& x, const at::Tensor& out, F&& f) {
  using W = Wide<X>;
  const auto* const from = x.const_data_ptr<X>();
  auto* const to = out.mutable_data_ptr<X>();
  const std::int64_t n = x.numel();
  parallel_for(
      0, (n + kPieceLength - 1) / kPieceLength, 8, [&](std::int64_t begin, std::int64_t end) {
        W a[kPieceLength];
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t first = p * kPieceLength, count = std::min(kPieceLength, n - first);
          load_row(from + first, count, a);
          f(a, count, first);
          store_row(a, count, to + first);
        }
      });
}

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    const at::Tensor in = x.contiguous();
    at::Tensor out = at::empty_like(in);
    with_type(in.scalar_type(), [&](auto tag) {
      using W = Wide<decltype(tag)>;
      elementwise<decltype(tag)>(
          in, out, [](W* a, std::int64_t count, std::int64_t) { internal::gelu(a, count); });
    });
    ctx->save_for_backward({in});
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const at::Tensor x = ctx->get_saved_variables()[0];
    const at::Tensor dy = grad[0].to(x.scalar_type()).contiguous();
    at::Tensor dx = at::empty_like(x);
    with_type(x.scalar_type(), [&](auto tag) {
      using X = decltype(tag);
      using W = Wide<X>;
      const auto* const slopes = dy.const_data_ptr<X>();
      elementwise<X>(x, dx, [&](W* a, std::int64_t count, std::int64_t first) {
        W d[kPieceLength];
        load_row(slopes + first, count, d);
        internal::gelu_backward(a, d, count);
      });
    });
    return {dx};
  }
};

}  // namespace

at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                          at::ScalarType type) {
  const auto fits = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (has_kernel(x) && weight.scalar_type() == fits && weight.is_contiguous() &&
      (type == fits || (type == at::kBFloat16 && fits == at::kFloat))) {
    return Norm::apply(x, weight, eps, type);
  }
  const at::Tensor values = wide(x);
  const at::Tensor scale = at::rsqrt(values.square().mean(-1, true) + eps);
  return (values * scale * weight).to(type);
}

at::Tensor fused_norm_rotate(const at::Tensor& x, const at::Tensor& weight, double eps,
                             const at::Tensor& cos, const at::Tensor& sin) {
  const auto fits = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (has_kernel(x) && weight.scalar_type() == fits && weight.is_contiguous()) {
    return NormRotate::apply(x, weight, eps, cos.contiguous(), sin.contiguous());
  }
  const std::int64_t dim = weight.numel(), half = dim / 2;
  const at::Tensor heads = wide(x).view({x.size(0), x.size(1) / dim, dim});
  const at::Tensor scale = at::rsqrt(heads.square().mean(-1, true) + eps);
  const at::Tensor normed = heads * scale * weight;
  const at::Tensor a = normed.narrow(-1, 0, half), b = normed.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1).to(x.scalar_type());
}

at::Tensor fused_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (has_kernel(gate) && gate.scalar_type() == up.scalar_type()) {
    return SwiGlu::apply(gate, up);
  }
  return at::silu(gate) * up;
}

at::Tensor fused_gelu(const at::Tensor& x) {
  return has_kernel(x) ? Gelu::apply(x) : at::gelu(x, "tanh");
}

}  // namespace forerun
