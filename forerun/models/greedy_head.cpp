#include "forerun/models/greedy_head.h"

#include <algorithm>
#include <limits>
#include <span>

#include "forerun/core/block_maxima.h"

namespace forerun {

using kernel::kPanel;

void GreedyHead::start(const Int8Matrix& head, int threads) {
  conditions_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].parent != kNone) conditions_.push_back(static_cast<std::int32_t>(i));
  }
  if (!conditional()) return;
  if (excluded_.size() < rows_.size()) excluded_ = std::vector<std::atomic<bool>>(rows_.size());
  for (auto& e : excluded_) e.store(false, std::memory_order_relaxed);
  version_.store(1, std::memory_order_relaxed);
  locals_.resize(std::max(locals_.size(), static_cast<std::size_t>(threads)));
  const auto n = static_cast<std::int64_t>(rows_.size());
  for (Local& local : locals_) {
    local.x = local.room.room_for(n, head.inputs());
    local.out.room_for(rows_.size() * kPanel);
    local.needed.reserve(rows_.size());
    local.conditions.reserve(rows_.size());
    local.version = 0;
    local.all = false;
  }
}

// Of the conditional rows' tokens, each from a product of its panel.
void GreedyHead::find_logits(Worker& w, const Int8Matrix& head, const kernel::Int8Rows& x) {
  float* const panel_out = locals_[static_cast<std::size_t>(w.index())].out.data();
  const auto some = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      Row& row = rows_[static_cast<std::size_t>(conditions_[static_cast<std::size_t>(i)])];
      const std::int64_t panel = row.token / kPanel;
      head.multiply(panel, panel + 1, kernel::rows_from(x, row.parent), 1, panel_out, kPanel, false,
                    head.first_panel(w));
      row.logit = panel_out[row.token % kPanel];
    }
  };
  w.each(static_cast<std::int64_t>(conditions_.size()), 1, some);
}

void GreedyHead::multiply(Worker& w, const Int8Matrix& head, const kernel::Int8Rows& x,
                          float* out) {
  find_logits(w, head, x);
  Local& local = locals_[static_cast<std::size_t>(w.index())];
  const std::int64_t vocab = head.outputs();
  const auto some = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel) {
      const bool all = panel < first_panels_;
      const std::uint32_t version = version_.load(std::memory_order_acquire);
      if (local.version != version || local.all != all) {
        if (!all || !local.all) gather(local, x, all);
        find_conditions(local);
        local.version = version;
      }
      const auto n = static_cast<std::int64_t>(local.needed.size());
      head.multiply(panel, panel + 1, local.x, n, local.out.data(), kPanel, false);
      const std::int64_t width = std::min(kPanel, vocab - panel * kPanel);
      for (std::int64_t i = 0; i < n; ++i) {
        std::copy_n(local.out.data() + i * kPanel, width,
                    out + local.needed[static_cast<std::size_t>(i)] * vocab + panel * kPanel);
      }
      compare(local, width);
    }
  };
  w.each(head.panels(), 1, some);
}

// The rows whose logits are computed: those not excluded, or all.
void GreedyHead::gather(Local& local, const kernel::Int8Rows& x, bool all) const {
  local.all = all;
  local.needed.clear();
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(rows_.size()); ++row) {
    if (!all && excluded(row)) continue;
    const kernel::Int8Rows from = kernel::rows_from(x, row);
    const auto to = kernel::rows_from(local.x, static_cast<std::int64_t>(local.needed.size()));
    std::copy_n(from.values, x.width, to.values);
    *to.scales = *from.scales;
    if (from.halves != nullptr) std::copy_n(from.halves, x.width, to.halves);
    local.needed.push_back(row);
  }
}

// Those of the rows that are not excluded yet.
void GreedyHead::find_conditions(Local& local) const {
  const std::vector<std::int32_t>& needed = local.needed;
  local.conditions.clear();
  for (const std::int32_t row : needed) {
    const std::int32_t parent = rows_[static_cast<std::size_t>(row)].parent;
    if (parent == kNone || excluded(row)) continue;
    const auto at = std::lower_bound(needed.begin(), needed.end(), parent);
    local.conditions.push_back({row, static_cast<std::int32_t>(at - needed.begin())});
  }
}

void GreedyHead::compare(const Local& local, std::int64_t width) {
  for (const Condition& c : local.conditions) {
    const std::span logits(local.out.data() + c.parent_at * kPanel,
                           static_cast<std::size_t>(width));
    if (largest(logits) > rows_[static_cast<std::size_t>(c.row)].logit) exclude(c.row);
  }
}

void GreedyHead::exclude(std::int32_t row) {
  excluded_[static_cast<std::size_t>(row)].store(true, std::memory_order_relaxed);
  for (auto later = static_cast<std::size_t>(row) + 1; later < rows_.size(); ++later) {
    const std::int32_t parent = rows_[later].parent;
    if (parent != kNone && excluded(parent)) {
      excluded_[later].store(true, std::memory_order_relaxed);
    }
  }
  version_.fetch_add(1, std::memory_order_release);
}

void GreedyHead::mark_excluded(float* out, std::int64_t vocab) const {
  for (const std::int32_t row : conditions_) {
    if (excluded(row)) out[row * vocab] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace forerun
