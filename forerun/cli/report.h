#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace forerun::cli {

/// A benchmark as one HTML page that needs nothing else: styles, script and numbers are inside, and
/// nothing is fetched.
///
/// Every field of `document` may be missing or null; the page then says "n/a" or leaves the part
/// out. Names may hold any bytes.
///
///   "forerun", "date", "cpu", "model", "precision", "rule", "command"   text
///   "threads"          number, 0 = one a core
///   "temperature", "seed", "prompts"   numbers; "prompts" counts those that ran
///   "prompts_total"    number; more than "prompts" if the run was interrupted
///   "drafters"         the objects of `bench --json`, the baseline "none" first
///   "cost"             null, or what one target pass over M tokens takes: {"precision": text,
///                      "prefix": cached tokens, "ms": {"1": ms, "2": ms, ...},
///                      "bandwidth_limit_ms": time to read the weights once}
///
/// The page holds these fields, and "headline", "verdict" {"kind", "head", "text"}, and of each
/// drafter "shown", a short name, and "against_plain", how its texts compare with the baseline's.
std::string render_report(const nlohmann::json& document);

}  // namespace forerun::cli
