#include "forerun/tensor/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "forerun/tensor/internal/rows.h"

namespace forerun {
namespace {

// [n, end - begin] bool: the keys that each new position sees. Undefined if all.
at::Tensor visible(std::int64_t n, std::int64_t length, std::int64_t begin,
                   const std::optional<std::int64_t>& window) {
  const bool windowed = window && length + n - begin > *window;
  if (n == 1 && !windowed) return {};
  const at::Tensor q = at::arange(length, length + n).unsqueeze(1);
  const at::Tensor k = at::arange(begin, length + n).unsqueeze(0);
  at::Tensor seen = k.le(q);
  if (window) seen = seen.logical_and(k.gt(q - *window));
  return seen;
}

// The same for the rows of a plan, whose keys follow the kept ones in the order of the rows.
at::Tensor visible(const RowPlan& plan, std::int64_t length, std::int64_t begin,
                   const std::optional<std::int64_t>& window) {
  const std::int64_t n = plan.rows(), kept = length - begin, width = kept + n;
  at::Tensor seen = at::zeros({n, width}, at::kBool);
  for (std::int64_t r = 0; r < n; ++r) {
    bool* row = seen.data_ptr<bool>() + r * width;
    const std::int64_t position = length + plan.depth(r);
    const std::int64_t first = window ? std::max(begin, position + 1 - *window) : begin;
    if (first < length) std::fill(row + first - begin, row + kept, true);
    std::int64_t at = length;
    for (const std::int32_t j : plan.seen(r)) {
      const std::int64_t away = at > position ? at - position : position - at;
      if (j >= 0 && (!window || away < *window)) row[kept + j] = true;
      ++at;
    }
  }
  return seen;
}

// In parts: with soft caps, or sinks. Rows are those of a key head's group, head by head.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& seen, const AttentionOptions& options) {
  at::Tensor scores = softcapped(internal::wide(at::matmul(q, k.transpose(-1, -2))) * options.scale,
                                 options.softcap);
  if (seen.defined()) {
    scores = scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (!options.sinks.defined()) {
    return at::matmul(at::softmax(scores, -1).to(v.scalar_type()), v);
  }
  const std::int64_t kv_heads = q.size(1), rows = q.size(2);
  const at::Tensor by_row = options.sinks.to(scores.scalar_type())
                                .view({kv_heads, -1})
                                .repeat_interleave(rows * kv_heads / options.sinks.numel(), 1)
                                .view({1, kv_heads, rows, 1});
  const at::Tensor all = at::softmax(at::cat({scores, by_row}, -1), -1);
  return at::matmul(all.narrow(-1, 0, scores.size(-1)).to(v.scalar_type()), v);
}

}  // namespace

at::Tensor softcapped(const at::Tensor& x, double cap) {
  return cap > 0.0 ? at::tanh(internal::wide(x) / cap) * cap : x;
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& seen, const AttentionOptions& options) {
  const std::int64_t n = q.size(0), heads = q.size(1), dim = q.size(2);
  const std::int64_t kv_heads = k.size(0), group = heads / kv_heads;
  // The heads of a group become rows of one product: [1, kv_heads, group * n, dim].
  const at::Tensor rows = q.view({n, kv_heads, group, dim})
                              .permute({1, 2, 0, 3})
                              .reshape({1, kv_heads, group * n, dim});
  const at::Tensor mask = seen.defined() && group > 1 ? seen.repeat({group, 1}) : seen;
  const at::Tensor keys = k.unsqueeze(0), values = v.unsqueeze(0);
  const at::Tensor out =
      options.softcap > 0.0 || options.sinks.defined()
          ? plain_attention(rows, keys, values, mask, options)
          : at::scaled_dot_product_attention(
                rows, keys, values, mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt,
                0.0, false, options.scale);
  return out.reshape({kv_heads, group, n, dim}).permute({2, 0, 1, 3}).reshape({n, heads * dim});
}

at::Tensor causal_mask(std::int64_t n, const std::optional<std::int64_t>& window) {
  return visible(n, 0, 0, window);
}

at::Tensor attend(const at::Tensor& q, const KvCache& cache, std::int64_t layer,
                  const RowPlan& plan, const AttentionOptions& options) {
  const std::int64_t n = q.size(0), length = cache.length();
  const std::int64_t begin =
      options.window ? std::max<std::int64_t>(0, length + 1 - *options.window) : 0;
  const at::Tensor seen = plan.chain() ? visible(n, length, begin, options.window)
                                       : visible(plan, length, begin, options.window);
  return attend(q, cache.keys(layer, begin, length + n), cache.values(layer, begin, length + n),
                seen, options);
}

}  // namespace forerun
