#include "forerun/cli/explain.h"

#include <fmt/format.h>

#include <map>

namespace forerun::cli {
namespace {

std::string acceptance_lines(const DraftLengthReport& r) {
  std::map<std::size_t, std::string> by_confidence_bin;
  for (const auto& rate : r.acceptance) {
    constexpr std::size_t kShown = 16;
    if (rate.position >= kShown) continue;
    by_confidence_bin[rate.confidence_bin] += fmt::format(" {:.2f}", rate.probability);
  }
  std::string out;
  for (const auto& [confidence_bin, rates] : by_confidence_bin) {
    out += fmt::format("  kept, confidence_bin {}  {}\n", confidence_bin, rates);
  }
  return out;
}

}  // namespace

std::string explain(const DraftLengthReport& r) {
  std::string out = "draft length, as measured while running:\n  target pass   ";
  for (const auto& p : r.pass) out += fmt::format(" {}: {:.2f} ms ", p.rows, 1e3 * p.seconds);
  out +=
      fmt::format("\n  drafter        {:.3f} ms a round, {:.3f} ms a token; rest {:.3f} ms\n",
                  1e3 * r.draft_fixed_seconds, 1e3 * r.draft_token_seconds, 1e3 * r.rest_seconds);
  out += acceptance_lines(r);
  out += "  rounds by drafts";
  for (std::size_t k = 0; k < r.chosen.size(); ++k) {
    if (r.chosen[k] > 0) out += fmt::format("  {}: {}", k, r.chosen[k]);
  }
  out += fmt::format(
      "\n  of them to learn: {} with drafts, {} without\n  last choice: {} drafts, {:.0f} tok/s "
      "expected; {:.0f} without\n  a text may lose the time of {:.1f} tokens to drafts before it "
      "gains",
      r.probes, r.plain_checks, r.lengths.empty() ? 0 : r.lengths.front(), r.planned_per_second,
      r.plain_per_second, r.credit);
  return out;
}

}  // namespace forerun::cli
