#include "forerun/tensor/mixed_cross_entropy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "forerun/tensor/ids.h"
#include "forerun/tensor/internal/rows.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

using internal::load_row;
using internal::store_row;
using internal::wide;
using internal::Wide;
using internal::with_type;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check(const at::Tensor& logits, const at::Tensor& addend, const MixedTargets& t) {
  const auto rows = static_cast<std::size_t>(logits.size(0));
  if (t.label.size() != rows || t.law_of.size() != rows || t.weight.size() != rows) {
    throw std::invalid_argument(
        fmt::format("cross-entropy: {} rows of logits, {} labels, {} laws named, {} weights", rows,
                    t.label.size(), t.law_of.size(), t.weight.size()));
  }
  if (t.laws.size(1) != logits.size(1) || (addend.defined() && addend.sizes() != logits.sizes())) {
    throw std::invalid_argument(
        fmt::format("cross-entropy: {} columns of logits, {} of laws; an addend must be of the "
                    "logits' shape",
                    logits.size(1), t.laws.size(1)));
  }
  if (t.covered.defined() && t.covered.numel() != t.laws.size(0)) {
    throw std::invalid_argument(fmt::format("cross-entropy: {} laws, {} shares that they cover",
                                            t.laws.size(0), t.covered.numel()));
  }
  const auto within = [](const std::vector<std::int64_t>& v, std::int64_t n) {
    return std::all_of(v.begin(), v.end(), [n](std::int64_t i) { return i >= 0 && i < n; });
  };
  if (!within(t.label, logits.size(1)) || !within(t.law_of, t.laws.size(0))) {
    throw std::invalid_argument("cross-entropy: a label or the number of a law lies outside");
  }
}

// The loss of all rows; `slope` takes the gradient, if defined.
template <class T>
MixedCrossEntropy rows_loss(const at::Tensor& logits, const at::Tensor& addend,
                            const MixedTargets& t, const at::Tensor& slope) {
  using W = Wide<T>;
  const std::int64_t rows = logits.size(0), n = logits.size(1);
  const auto options = logits.options().dtype(c10::CppTypeToScalarType<W>::value);
  MixedCrossEntropy out{.loss = {},
                        .overlap = at::empty({rows}, options),
                        .best = at::empty({rows}, options.dtype(at::kLong))};
  const at::Tensor losses = at::empty({rows}, options);
  const T *const from = logits.const_data_ptr<T>(), *const more = addend.defined()
                                                                      ? addend.const_data_ptr<T>()
                                                                      : nullptr;
  T* const to = slope.defined() ? slope.mutable_data_ptr<T>() : nullptr;
  const W *const laws = t.laws.const_data_ptr<W>(), *const covered =
                                                        t.covered.defined()
                                                            ? t.covered.const_data_ptr<W>()
                                                            : nullptr;
  W *const loss = losses.mutable_data_ptr<W>(), *const overlap = out.overlap.mutable_data_ptr<W>();
  std::int64_t* const best = out.best.mutable_data_ptr<std::int64_t>();
  parallel_for(0, rows, 8, [&](std::int64_t begin, std::int64_t end) {
    std::vector<W> x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(more ? n : 0));
    for (std::int64_t r = begin; r < end; ++r) {
      const auto at = static_cast<std::size_t>(r);
      load_row(from + r * n, n, x.data());
      if (more != nullptr) {
        load_row(more + r * n, n, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) x[i] += y[i];
      }
      const std::int64_t law = t.law_of[at];
      const auto result = internal::cross_entropy(
          x.data(), laws + law * n, n, covered ? covered[law] : W(1), t.label[at],
          static_cast<W>(t.weight[at]), static_cast<W>(t.share), t.law_loss == LawLoss::kL1);
      loss[r] = result.loss;
      overlap[r] = result.overlap;
      best[r] = result.best;
      if (to != nullptr) store_row(x.data(), n, to + r * n);
    }
  });
  W sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) sum += loss[r];
  out.loss = at::full({}, sum, options);
  return out;
}

class Fused : public torch::autograd::Function<Fused> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& logits,
                               const std::optional<at::Tensor>& addend,
                               const MixedTargets& targets) {
    const bool wanted = logits.requires_grad() || (addend && addend->requires_grad());
    const at::Tensor slope = wanted ? at::empty_like(logits) : at::Tensor();
    MixedCrossEntropy out;
    with_type(logits.scalar_type(), [&](auto tag) {
      out = rows_loss<decltype(tag)>(logits, addend.value_or(at::Tensor()), targets, slope);
    });
    if (wanted) ctx->save_for_backward({slope});
    ctx->saved_data["addend"] = addend.has_value();
    ctx->mark_non_differentiable({out.overlap, out.best});
    return {out.loss, out.overlap, out.best};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& slopes) {
    const at::Tensor slope = ctx->get_saved_variables()[0];
    const at::Tensor by = slope * slopes[0];  // a 0-dim factor is not rounded to the slope's type
    return {by, ctx->saved_data["addend"].toBool() ? by : at::Tensor(), {}};
  }
};

// The same from ATen's operations, for other devices.
MixedCrossEntropy composed(const at::Tensor& logits, const at::Tensor& addend,
                           const MixedTargets& t) {
  const at::Device device = logits.device();
  const at::Tensor x = addend.defined() ? wide(logits) + wide(addend) : wide(logits);
  const at::Tensor log_q = at::log_softmax(x, -1);
  const at::Tensor law_of = ids_on(device, t.law_of);
  const at::Tensor p = t.laws.index_select(0, law_of);
  const at::Tensor kept =
      t.covered.defined() ? p * t.covered.index_select(0, law_of).unsqueeze(1) : p;
  const at::Tensor token = log_q.gather(1, ids_on(device, t.label).unsqueeze(1)).squeeze(1).neg();
  const at::Tensor law = t.law_loss == LawLoss::kL1
                             ? 2.0 - 2.0 * at::minimum(kept, log_q.exp()).sum(1)
                             : (p * log_q).sum(1).neg();
  const at::Tensor weight = at::tensor(t.weight, at::kFloat).to(device, x.scalar_type());
  return {.loss = ((token * (1.0 - t.share) + law * t.share) * weight).sum(),
          .overlap = at::minimum(kept, log_q.detach().exp()).sum(1),
          .best = x.detach().argmax(1)};
}

}  // namespace

MixedCrossEntropy mixed_cross_entropy(const at::Tensor& logits, const at::Tensor& addend,
                                      const MixedTargets& targets) {
  check(logits, addend, targets);
  const bool kernel =
      logits.is_cpu() && (!addend.defined() || addend.scalar_type() == logits.scalar_type());
  if (!kernel) return composed(logits, addend, targets);
  MixedTargets there = targets;
  const at::ScalarType type = wide(logits.new_empty({0})).scalar_type();
  there.laws = targets.laws.to(type).contiguous();
  if (targets.covered.defined()) there.covered = targets.covered.to(type).contiguous();
  const auto more = addend.defined() ? std::optional(addend.contiguous()) : std::nullopt;
  const variable_list out = Fused::apply(logits.contiguous(), more, there);
  return {.loss = out[0], .overlap = out[1], .best = out[2]};
}

}  // namespace forerun
