#include "forerun/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {

nlohmann::json to_json(const Difference& d) {
  nlohmann::json j = {{"prompt", d.prompt},   {"position", d.position},
                      {"drafted", d.drafted}, {"one_ended", d.one_ended},
                      {"plain", d.plain},     {"margin", d.margin},
                      {"tie", d.tie}};
  if (d.one_ended) j["margin"] = nullptr;
  return j;
}

namespace {

nlohmann::json texts_json(const Certificate& c) {
  nlohmann::json differences = nlohmann::json::array();
  for (const Difference& d : c.differences) differences.push_back(to_json(d));
  return {{"tokens", c.outputs},
          {"drafted_tokens", c.report.drafted},
          {"ks_statistic", c.report.ks_statistic},
          {"z_p", c.report.z_p},
          {"edges", c.edges},
          {"exact", c.exact},
          {"interrupted", c.interrupted},
          {"deterministic", c.deterministic},
          {"tie_margin", c.tie_margin},
          {"differences", differences},
          {"verdict", c.verdict()}};
}

nlohmann::json images_json(const Certificate& c) {
  return {{"passed", c.passed()},
          {"interrupted", c.interrupted},
          {"transitions", c.outputs},
          {"energy_p", c.report.energy_p},
          {"kept", c.kept},
          {"expected", c.expected},
          {"expected_z", c.expected_z},
          {"shift", c.shift},
          {"predicted_shift", c.predicted_shift},
          {"counterfactuals", c.counterfactuals.places},
          {"violations", c.counterfactuals.violations},
          {"seconds", c.seconds}};
}

// The words for what was scored: transitions of images, inner steps of image tokens.
struct StepWords {
  const char *steps, *drafted, *kept, *decided, *p;
};
StepWords words_of(const Certificate& c) {
  if (c.scored == Scored::kInnerSteps) {
    return {"inner steps", "coupled", "inner steps that ended on the draft's state", "inner steps",
            "{:.3g}"};
  }
  return {"transitions", "drafted", "drafts kept", "steps", "{:.3f}"};
}

std::string steps_summary(const Certificate& c) {
  const StepWords w = words_of(c);
  const auto p = [&](double value) { return fmt::format(fmt::runtime(w.p), value); };
  return fmt::format("{}{} {}, {} {}: z = {:+.2f}, KS p = {}, energy p = {}",
                     c.interrupted ? "(interrupted) " : "", c.outputs, w.steps, c.drafted,
                     w.drafted, c.report.z, p(c.report.ks_p), p(c.report.energy_p));
}

// The lines after the summary.
std::string steps_details(const Certificate& c) {
  const StepWords w = words_of(c);
  const bool inner = c.scored == Scored::kInnerSteps;
  std::string out;
  if (!inner || c.rule == Rule::kStepwise) {
    out += fmt::format("{} {}, by an exact rule {:.1f}: z = {:+.2f}\n", w.kept, c.kept, c.expected,
                       c.expected_z);
  }
  out += inner ? fmt::format("coupled steps lean towards drafts by {:+.5f} sigma\n", c.shift)
               : fmt::format(
                     "outputs lean towards drafts by {:+.5f} sigma; this rule's are to, by "
                     "{:+.5f}\n",
                     c.shift, c.predicted_shift);
  if (!inner || c.exact) {
    out +=
        fmt::format("counterfactuals: {} of {} {} decided otherwise once their own noise changes\n",
                    c.counterfactuals.violations, c.counterfactuals.places, w.decided);
  }
  return out;
}

}  // namespace

nlohmann::json to_json(const Certificate& c) {
  nlohmann::json out = c.scored == Scored::kTokens ? texts_json(c) : images_json(c);
  out.update({{"z", c.report.z},
              {"ks_p", c.report.ks_p},
              {"drafted", c.report.drafted},
              {"forbidden", c.report.forbidden}});
  return out;
}

std::string describe(const Difference& d) {
  if (d.one_ended) {
    return fmt::format("prompt {}: one text ends at token {}", d.prompt, d.position);
  }
  return fmt::format("prompt {}, token {}: {} instead of {}, margin {:.2g} logits{}", d.prompt,
                     d.position, d.drafted, d.plain, d.margin, d.tie ? " (a tie)" : "");
}

std::string summary(const Certificate& c) {
  if (c.scored != Scored::kTokens) return steps_summary(c);
  const std::size_t ties = static_cast<std::size_t>(
      std::count_if(c.differences.begin(), c.differences.end(), [](auto& d) { return d.tie; }));
  std::string law = fmt::format("{} of them drafted: z = {:+.2f}, KS p = {:.2g}", c.report.drafted,
                                c.report.z, c.report.ks_p);
  if (c.report.forbidden > 0) law += fmt::format(", {} forbidden outputs", c.report.forbidden);
  if (c.edges > 0) law += fmt::format(", {} at the edge of a limit left out", c.edges);
  const std::string verdict = c.verdict() + (c.interrupted ? " (interrupted)" : "");
  if (!c.deterministic) {
    return fmt::format("{}: {} tokens scored again, {}", verdict, c.outputs, law);
  }
  return fmt::format(
      "{}: {} tokens scored again by plain passes, {} ties within {} logits, {} differences{}",
      verdict, c.outputs, ties, c.tie_margin, c.differences.size() - ties,
      c.report.passed() ? "" : "; " + law);
}

bool passed(const Certificate& c) { return c.passed() && c.drafted > 0; }

void show(const Certificate& c) {
  const bool ok = passed(c);
  const char* const verdict = ok               ? "PASS"
                              : c.outputs == 0 ? "NOTHING JUDGED"
                              : c.drafted == 0 ? "NOTHING DRAFTED"
                                               : "FAIL";
  const char* const inexact =
      c.exact ? ""
      : is_exact(c.rule)
          ? "the outputs' law is another than the target's, INEXACT by design: it should fail\n"
          : "the rule is INEXACT by design: it should fail\n";
  std::string out =
      fmt::format("{} {}\n", styled(stdout, ok ? Style::kGreen : Style::kRed, verdict), summary(c));
  if (c.scored != Scored::kTokens) return write_out(out + steps_details(c) + inexact);
  out += inexact;
  for (const Difference& d : c.differences) out += "  " + describe(d) + "\n";
  write_out(out + tau_text(c.statistics) + "\n");
}

}  // namespace forerun::cli
