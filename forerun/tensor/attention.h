#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "forerun/tensor/kv_cache.h"
#include "forerun/tensor/row_plan.h"

namespace forerun {

struct AttentionOptions {
  double scale = 1.0;                  ///< of query-key products
  std::optional<std::int64_t> window;  ///< a key is seen iff query position - key position < window
  double softcap = 0.0;                ///< scores become c * tanh(score / c); 0 = none
  at::Tensor sinks = {};  ///< [heads]: a further score of every row, without a value; or undefined
};

/// cap * tanh(x / cap) in float32 or wider; x itself if the cap is 0.
at::Tensor softcapped(const at::Tensor& x, double cap);

/// Attention of rows over keys and values; differentiable in all three. Query heads that share a
/// key head are grouped, never expanded.
/// @param q     [n, heads, head_dim]
/// @param k, v  [kv_heads, m, head_dim]
/// @param seen  [n, m] bool: whom each row sees; undefined: all. The options' window is not read.
/// @return      [n, heads * head_dim]
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& seen, const AttentionOptions& options);

/// [n, n] bool: whom the rows of a text see, themselves included; undefined if n is 1.
at::Tensor causal_mask(std::int64_t n, const std::optional<std::int64_t>& window);

/// Attention of new rows over a sequence's cache, which already holds their keys and values
/// (written, not yet advanced).
/// @param q     [n, heads, head_dim] of the cache's dtype
/// @param plan  of n rows: their positions, and whom they see
/// @return      [n, heads * head_dim]
at::Tensor attend(const at::Tensor& q, const KvCache& cache, std::int64_t layer,
                  const RowPlan& plan, const AttentionOptions& options);

}  // namespace forerun
