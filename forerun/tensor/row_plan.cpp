#include "forerun/tensor/row_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace forerun {
namespace {

using Rows = std::vector<std::int32_t>;

void check_size(const char* what, std::int64_t rows, std::size_t size) {
  if (size == 0 || static_cast<std::int64_t>(size) == rows) return;
  throw std::invalid_argument(fmt::format(
      "row plan: {} {} for {} rows: give one for every row, or none", size, what, rows));
}

Rows parents_of(std::int64_t rows, std::span<const std::int32_t> given) {
  Rows parents(given.begin(), given.end());
  for (std::int64_t i = 0; given.empty() && i < rows; ++i) {
    parents.push_back(static_cast<std::int32_t>(i - 1));
  }
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] >= -1 && parents[i] < static_cast<std::int64_t>(i)) continue;
    throw std::invalid_argument(
        fmt::format("row plan: row {} has parent {}: an earlier row, or -1 for the last kept "
                    "position, was expected",
                    i, parents[i]));
  }
  return parents;
}

}  // namespace

RowPlan RowPlan::of(std::int64_t rows, std::span<const std::int32_t> parents,
                    std::span<const std::int32_t> groups, std::span<const std::int32_t> skips) {
  check_size("parents", rows, parents.size());
  check_size("groups", rows, groups.size());
  check_size("skips", rows, skips.size());
  RowPlan plan(rows);
  if (parents.empty() && groups.empty() && skips.empty()) return plan;
  plan.parents_ = parents_of(rows, parents);
  plan.straight_ = plan.depths_ = 0;
  std::map<std::int32_t, Rows> members;
  for (std::int32_t i = 0; i < rows; ++i) {
    const auto r = static_cast<std::size_t>(i);
    const std::int32_t parent = plan.parents_[r], skip = skips.empty() ? 0 : skips[r];
    if (skip < 0) {
      throw std::invalid_argument(
          fmt::format("row plan: row {} skips {} positions: 0 or more were expected", i, skip));
    }
    plan.depth_.push_back(skip +
                          (parent < 0 ? 0 : plan.depth_[static_cast<std::size_t>(parent)] + 1));
    plan.depths_ = std::max<std::int64_t>(plan.depths_, plan.depth_[r] + 1);
    if (plan.straight_ == i && parent == i - 1 && skip == 0) ++plan.straight_;
    if (!groups.empty() && groups[r] >= 0) members[groups[r]].push_back(i);
    if (skip > 0 || (!groups.empty() && groups[r] >= 0)) plan.ordered_ = false;
  }
  Rows seen;
  plan.first_.push_back(0);
  for (std::int32_t i = 0; i < rows; ++i) {
    const auto r = static_cast<std::size_t>(i);
    seen.assign(static_cast<std::size_t>(plan.depth_[r]) + 1, -1);
    for (std::int32_t j = i; j >= 0; j = plan.parents_[static_cast<std::size_t>(j)]) {
      seen[static_cast<std::size_t>(plan.depth_[static_cast<std::size_t>(j)])] = j;
    }
    if (!groups.empty() && groups[r] >= 0) {
      for (const std::int32_t j : members[groups[r]]) {
        const auto depth = static_cast<std::size_t>(plan.depth_[static_cast<std::size_t>(j)]);
        if (depth >= seen.size()) seen.resize(depth + 1, -1);
        if (seen[depth] >= 0 && seen[depth] != j) {
          throw std::invalid_argument(
              fmt::format("row plan: row {} sees rows {} and {}, both {} after the last kept "
                          "position: put them in different groups",
                          i, seen[depth], j, depth + 1));
        }
        seen[depth] = j;
      }
    }
    plan.seen_.insert(plan.seen_.end(), seen.begin(), seen.end());
    plan.first_.push_back(plan.seen_.size());
  }
  return plan;
}

}  // namespace forerun
