#pragma once

/// Whether drafting changed the law of what was generated: the result of every certificate.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "forerun/core/certificate_report.h"
#include "forerun/core/rule.h"
#include "forerun/core/statistics.h"
#include "forerun/core/token.h"

#pragma GCC visibility push(default)
namespace forerun {

/// An output of a drafted run that the undrafted target would not have chosen.
struct Difference {
  std::size_t prompt = 0;    ///< index of the prompt
  std::size_t position = 0;  ///< of the output
  Token drafted = 0, plain = 0;
  double margin = 0.0;     ///< margin of `plain` over `drafted` under the target, in logits
  bool tie = false;        ///< margin below the precision, or at the edge of top-k, top-p, min-p
  bool one_ended = false;  ///< one text ends here, the other continues; no tokens, no margin
};

/// Transitions sampled again with their noise, and all later noise, from another seed: their
/// decisions must not change, bit for bit (methods/diffusion/decision_watch.h). None if draft
/// lengths depend on the clock, or the run was interrupted.
struct Counterfactuals {
  std::uint64_t places = 0, violations = 0;
};

/// What a certificate scores: tokens of texts, transitions of images, inner steps of the chains of
/// image tokens.
enum class Scored : std::uint8_t { kTokens, kTransitions, kInnerSteps };

/// Result of certifying a run. Sampled runs are judged by z and p values, deterministic ones also
/// by equality with plain decoding: temperature 0, shared-noise, match, and lookup's drafts under
/// any exact rule (except bf16 with top-k, top-p or min-p, because rounding moves their edges).
struct Certificate {
  Scored scored = Scored::kTokens;
  Rule rule = Rule::kMaximal;
  /// Whether the rule is exact and the drafter keeps the law; with a relaxation none is.
  bool exact = true;
  CertificateReport report;
  std::uint64_t outputs = 0;  ///< scored again by plain passes
  std::uint64_t drafted = 0;  ///< drafts of texts, examined ones of images; 0: nothing was tested
  RunStatistics statistics;
  double seconds = 0.0;      ///< of sampling images
  bool interrupted = false;  ///< it covers what was scored before; of images perhaps nothing

  // Texts.
  bool deterministic = false;
  double tie_margin = 0.0;  ///< margins below it are ties
  std::size_t edges = 0;    ///< outputs left out: at a limit's edge, within measured rounding
  std::vector<Difference> differences;  ///< deterministic runs only

  // Images. Of image tokens `kept` and `expected` count inner steps that ended on the draft's state
  // (rule stepwise).
  std::uint64_t kept = 0;   ///< of the drafts that were examined
  double expected = 0.0;    ///< how many of these an exact rule keeps, on average
  double expected_z = 0.0;  ///< distance between the two in standard errors
  /// Means over drafted transitions of the output along the draft, in sigmas: measured, and
  /// predicted for the relaxation (0 for an exact rule).
  double shift = 0.0, predicted_shift = 0.0;
  Counterfactuals counterfactuals;

  /// No evidence of a bias. False if nothing was scored, or of images nothing drafted.
  bool passed() const;
  /// Sampled runs: "no bias found" or "biased"; deterministic ones: "identical", "identical up to
  /// ties" or "different".
  std::string verdict() const;
};

}  // namespace forerun
#pragma GCC visibility pop
