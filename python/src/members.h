#pragma once

#include <forerun/certificate.h>
#include <forerun/image.h>
#include <forerun/text.h>

#include <cstdint>
#include <tuple>

namespace forerun {

// The members of results, for their pickles: found by argument-dependent lookup.

inline auto members(RunStatistics& s) {
  return std::tie(s.rounds, s.outputs, s.examined, s.accepted, s.drafted, s.lengths, s.passes,
                  s.seconds.drafter, s.seconds.target, s.seconds.rest);
}
inline auto members(RoundTrace& r) {
  return std::tie(r.drafts, r.parents, r.kept, r.outputs, r.drafter_seconds, r.target_seconds);
}
inline auto members(TextTrace& t) { return std::tie(t.rounds); }
inline auto members(TextResult& r) {
  return std::tie(r.text, r.tokens, r.statistics, r.seconds, r.prefill_seconds, r.prefill_passes,
                  r.shared_tokens, r.finish);
}
// Without the controller's estimates, which Python does not show.
inline auto members(Generated& g) {
  return std::tuple_cat(members(static_cast<TextResult&>(g)),
                        std::tie(g.rule, g.exact, g.seed, g.trace));
}
inline auto members(TokenScore& s) { return std::tie(s.token, s.log_probability, s.top); }
inline auto members(CertificateReport& r) {
  return std::tie(r.outputs, r.drafted, r.z, r.ks_statistic, r.ks_p, r.energy_p, r.forbidden,
                  r.z_p);
}
inline auto members(Difference& d) {
  return std::tie(d.prompt, d.position, d.drafted, d.plain, d.margin, d.tie, d.one_ended);
}
inline auto members(Certificate& c) {
  return std::tie(c.scored, c.rule, c.exact, c.report, c.outputs, c.drafted, c.statistics,
                  c.seconds, c.interrupted, c.deterministic, c.tie_margin, c.edges, c.differences,
                  c.kept, c.expected, c.expected_z, c.shift, c.predicted_shift,
                  c.counterfactuals.places, c.counterfactuals.violations);
}
inline auto members(TextPiece& e) { return std::tie(e.id, e.text); }
inline auto members(TokenOutput& e) { return std::tie(e.id, e.token, e.log_probability, e.top); }
inline auto members(RoundReport& e) { return std::tie(e.id, e.trace, e.bytes); }
inline auto members(Waiting& e) { return std::tie(e.id, e.reason); }
inline auto members(Failed& e) { return std::tie(e.id, e.message, e.by_request); }
inline auto members(Image& i) { return std::tie(i.width, i.height, i.channels, i.pixels); }
inline auto members(StepStatistics& s) {
  return std::tie(s.examined, s.kept, s.overlap, s.noise_distance);
}
// Without the trace and the controller's estimates, which Python does not show.
inline auto members(ImageRun& r) {
  return std::tie(r.images, r.values, r.image_seconds, r.statistics, r.calls, r.seconds, r.exact,
                  r.interrupted, r.steps, r.states, r.remerged, r.proposals, r.passes, r.head_calls,
                  r.head_rows);
}

}  // namespace forerun

namespace forerun::python {

/// A certificate, and the seed of what it certifies.
struct SeededCertificate : Certificate {
  std::uint64_t seed = 0;
};

inline auto members(SeededCertificate& c) {
  return std::tuple_cat(members(static_cast<Certificate&>(c)), std::tie(c.seed));
}

}  // namespace forerun::python
