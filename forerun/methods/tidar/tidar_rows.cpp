#include "forerun/methods/tidar/tidar_rows.h"

#include <fmt/format.h>

#include "forerun/tensor/row_plan.h"

namespace forerun {

void add_replica(const std::shared_ptr<const GatedLora>& lora, const Replica& replica,
                 const TokenDraft& draft, CompanionRows& rows) {
  const GatedLoraConfig& c = lora->config;
  const auto drafted = static_cast<std::int32_t>(draft.size());
  const auto group = static_cast<std::int32_t>(rows.rows());
  rows.lora = lora;
  std::int32_t parent = replica.after, skip = static_cast<std::int32_t>(c.first_slot);
  if (c.seeded) {
    const bool newest = parent < 0;
    const auto at = static_cast<std::size_t>(newest ? 0 : parent);
    const std::int32_t before = newest ? CompanionRows::kBeforeNewest : draft.parent(at);
    const Token seed = newest ? replica.newest : draft.tokens[at];
    parent = drafted + rows.add_mask(seed, before, 0, group, false);
  }
  for (std::int64_t slot = c.first_slot; slot < c.block; ++slot) {
    parent =
        drafted + rows.add_mask(c.mask_token, parent, skip, group, slot >= replica.first_wanted);
    skip = 0;
  }
}

std::vector<double> ends_of(const TokenDraft& draft, std::span<const double> reach) {
  std::vector<double> ends = {1.0};
  ends.insert(ends.end(), reach.begin(), reach.end());
  for (std::size_t i = 0; i < draft.size(); ++i) {
    ends[static_cast<std::size_t>(draft.parent(i) + 1)] -= reach[i];
  }
  return ends;
}

std::string drawn(const TokenDraft& draft, const CompanionRows& rows, std::int64_t text) {
  const auto drafted = static_cast<std::int32_t>(draft.size());
  std::vector<std::int32_t> parents = {-1}, groups, skips;
  std::vector<std::string> names = {"t"};
  for (std::int32_t i = 0; i < drafted; ++i) {
    parents.push_back(draft.parent(static_cast<std::size_t>(i)) + 1);
    names.push_back(fmt::format("d{}", i + 1));
  }
  groups.assign(parents.size(), -1);
  skips.assign(parents.size(), 0);
  int replica = -1;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    parents.push_back(rows.parents[i] + 1);
    groups.push_back(rows.groups[i]);
    skips.push_back(rows.skips[i]);
    if (i == 0 || rows.groups[i] != rows.groups[i - 1]) ++replica;
    names.push_back(fmt::format("R{}", replica));
  }
  const auto n = static_cast<std::int64_t>(names.size());
  const RowPlan plan = RowPlan::of(n, parents, groups, skips);
  std::string out = "row  pos  text ";
  for (const std::string& name : names) out += fmt::format(" {:>2}", name);
  out += '\n';
  for (std::int64_t r = 0; r < n; ++r) {
    out += fmt::format("{:<4} {:>3}  {:<5}", names[static_cast<std::size_t>(r)],
                       text - 1 + plan.depth(r), "x..x");
    std::vector<bool> seen(static_cast<std::size_t>(n), false);
    for (const std::int32_t j : plan.seen(r)) {
      if (j >= 0) seen[static_cast<std::size_t>(j)] = true;
    }
    for (std::int64_t j = 0; j < n; ++j) out += seen[static_cast<std::size_t>(j)] ? "  x" : "  .";
    out += '\n';
  }
  return out;
}

}  // namespace forerun
