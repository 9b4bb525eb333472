#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace forerun::cli {

/// A benchmark as one HTML page that needs nothing else: styles and SVG charts are inside, no
/// script, no request. The page is also well-formed XML.
///
/// Every field of `document` may be missing, null or not finite; the page then says "n/a" or leaves
/// the part out. All text is escaped; what is no UTF-8 becomes U+FFFD.
///
///   "forerun", "date", "cpu", "model", "precision", "rule", "command"   text
///   "threads"          number, 0 = one a core
///   "temperature", "seed", "prompts"   numbers; "prompts" counts those that ran
///   "prompts_total"    number; more than "prompts" if the run was interrupted
///   "drafters"         the objects of `bench --json`, the baseline "none" first: "drafter",
///   "tok_s",
///                      "speedup_vs_none", "tau", "outputs", "rounds", "drafted", "examined",
///                      "accepted", "ms_per_target_pass", "ms_per_draft", "ms_rest_per_round",
///                      "exact", "by_category", "identical_to_none", "identical_up_to_ties",
///                      "differences"; perhaps "draft_lengths": {"0": rounds, "1": rounds, ...},
///                      which lengths a controller chose
///   "cost"             null, or what one target pass over M tokens takes: {"precision": text,
///                      "prefix": cached tokens, "ms": {"1": ms, "2": ms, ...},
///                      "bandwidth_limit_ms": time to read the weights once}
std::string render_report(const nlohmann::json& document);

}  // namespace forerun::cli
