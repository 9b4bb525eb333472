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
};

/// Attention of new rows over a sequence's cache, which already holds their keys and values
/// (written, not yet advanced). Query heads that share a key head are grouped, never expanded.
/// @param q     [n, heads, head_dim] of the cache's dtype
/// @param plan  of n rows: their positions, and whom they see
/// @return      [n, heads * head_dim]
at::Tensor attend(const at::Tensor& q, const KvCache& cache, std::int64_t layer,
                  const RowPlan& plan, const AttentionOptions& options);

}  // namespace forerun
