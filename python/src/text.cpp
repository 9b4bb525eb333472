#include <forerun/text.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupts.h"
#include "members.h"
#include "pickle.h"
#include "repr.h"
#include "text_options.h"

namespace forerun::python {
namespace {

using nb::literals::operator""_a;
using Prompts = std::vector<std::vector<Token>>;
using OnText = std::optional<nb::callable>;

/// A listener that looks for signals and hands finished text to `on_text`, which may raise.
Listener listener_of(Interrupts& interrupts, const OnText& on_text) {
  Listener listener;
  listener.go_on = [&interrupts] { return interrupts.go_on(); };
  if (on_text) {
    listener.on_text = [&interrupts, &on_text](std::string_view piece) {
      interrupts.run([&] { (*on_text)(nb::str(piece.data(), piece.size())); });
    };
  }
  return listener;
}

void bind_statistics(nb::module_& m) {
  nb::class_<RunStatistics> c(m, "Statistics", "The raw counters of a run, and derived figures.");
  c.def_ro("rounds", &RunStatistics::rounds, "target passes that verified, each text's counted")
      .def_ro("outputs", &RunStatistics::outputs)
      .def_ro("drafted", &RunStatistics::drafted, "drafts proposed")
      .def_ro("passes", &RunStatistics::passes, "target passes, each for all of its batch")
      .def_ro("examined", &RunStatistics::examined, "by draft position: drafts the rule examined")
      .def_ro("accepted", &RunStatistics::accepted, "by draft position: drafts kept")
      .def_prop_ro("kept", &RunStatistics::kept)
      .def_prop_ro("acceptance", &RunStatistics::acceptance,
                   "share of the examined drafts that were kept")
      .def_prop_ro("tau", &RunStatistics::tau, "outputs per target pass; plain decoding has 1")
      .def_prop_ro("seconds", [](const RunStatistics& s) { return s.seconds.total(); })
      .def("__repr__", [](const RunStatistics& s) {
        return nb::str(
                   "Statistics(rounds={}, outputs={}, drafted={}, kept={}, tau={:.2f}, "
                   "seconds={:.3f})")
            .format(s.rounds, s.outputs, s.drafted, s.kept(), s.tau(), s.seconds.total());
      });
  def_pickle(c);
}

void bind_results(nb::module_& m) {
  nb::class_<RoundTrace> round(m, "RoundTrace", "How a round of a text came about.");
  round.def_ro("drafts", &RoundTrace::drafts)
      .def_ro("parents", &RoundTrace::parents, "the draft that each one follows, -1 the text")
      .def_ro("kept", &RoundTrace::kept, "drafts that are outputs, in their order")
      .def_ro("outputs", &RoundTrace::outputs)
      .def_ro("drafter_seconds", &RoundTrace::drafter_seconds)
      .def_ro("target_seconds", &RoundTrace::target_seconds)
      .def("__repr__", [](const RoundTrace& r) {
        return nb::str("RoundTrace(drafts={}, parents={}, kept={}, outputs={})")
            .format(r.drafts, r.parents, r.kept, r.outputs);
      });
  def_pickle(round);
  nb::class_<TextResult> result(m, "TextResult", "A finished text.");
  result.def_ro("text", &TextResult::text)
      .def_ro("tokens", &TextResult::tokens, "all outputs, the end token included")
      .def_ro("statistics", &TextResult::statistics)
      .def_ro("seconds", &TextResult::seconds, "of its rounds, without the prompt")
      .def_ro("prefill_seconds", &TextResult::prefill_seconds)
      .def_ro("shared_tokens", &TextResult::shared_tokens,
              "of the prompt: keys and values were there already")
      .def_prop_ro("finish", [](const TextResult& r) { return std::string(name_of(r.finish)); })
      .def("__str__", [](const TextResult& r) { return r.text; })
      .def(
          "__format__",
          [](const TextResult& r, const std::string& how) {
            return nb::steal<nb::str>(PyObject_Format(nb::cast(r.text).ptr(), nb::cast(how).ptr()));
          },
          "format_spec"_a, "The text, formatted as a str.")
      .def("__repr__", [](const TextResult& r) {
        return nb::str("TextResult({}, {} tokens, finish={!r}, tau={:.2f})")
            .format(shown(r.text), r.tokens.size(), std::string(name_of(r.finish)),
                    r.statistics.tau());
      });
  def_pickle(result);
  nb::class_<Generated, TextResult> generated(m, "Generated",
                                              "A generated text, and how it came about.");
  generated.def_prop_ro("rule", [](const Generated& g) { return std::string(name_of(g.rule)); })
      .def_ro("exact", &Generated::exact, "the rule keeps the target's law")
      .def_ro("seed", &Generated::seed)
      .def_prop_ro("tokens_per_second", &Generated::tokens_per_second)
      .def_prop_ro(
          "rounds",
          [](const Generated& g) { return g.trace ? g.trace->rounds : std::vector<RoundTrace>(); },
          "of a run with trace=True")
      .def("__repr__", [](const Generated& g) {
        return nb::str(
                   "Generated({}, {} tokens, finish={!r}, rule={!r}, exact={}, seed={}, "
                   "tau={:.2f}, {:.1f} tokens/s)")
            .format(shown(g.text), g.tokens.size(), std::string(name_of(g.finish)),
                    std::string(name_of(g.rule)), g.exact, g.seed, g.statistics.tau(),
                    g.tokens_per_second());
      });
  def_pickle(generated);
}

void bind_certificates(nb::module_& m) {
  nb::class_<CertificateReport> report(
      m, "CertificateReport",
      "Figures of a certificate: under an exact rule z is standard normal, p values are uniform.");
  report.def_ro("outputs", &CertificateReport::outputs)
      .def_ro("drafted", &CertificateReport::drafted, "outputs with an examined draft")
      .def_ro("z", &CertificateReport::z, "shift towards the drafts, in standard errors")
      .def_ro("z_p", &CertificateReport::z_p)
      .def_ro("ks_statistic", &CertificateReport::ks_statistic)
      .def_ro("ks_p", &CertificateReport::ks_p)
      .def_ro("energy_p", &CertificateReport::energy_p)
      .def_ro("forbidden", &CertificateReport::forbidden)
      .def_prop_ro("passed", &CertificateReport::passed)
      .def("__repr__", [](const CertificateReport& r) {
        return nb::str(
                   "CertificateReport(outputs={}, drafted={}, z={:.2f}, z_p={:.2g}, "
                   "ks_p={:.2g}, energy_p={:.2g}, forbidden={}, passed={})")
            .format(r.outputs, r.drafted, r.z, r.z_p, r.ks_p, r.energy_p, r.forbidden, r.passed());
      });
  def_pickle(report);
  nb::class_<Difference> difference(m, "Difference",
                                    "An output that the undrafted target would not have chosen.");
  difference.def_ro("prompt", &Difference::prompt)
      .def_ro("position", &Difference::position)
      .def_ro("drafted", &Difference::drafted)
      .def_ro("plain", &Difference::plain)
      .def_ro("margin", &Difference::margin)
      .def_ro("tie", &Difference::tie)
      .def("__repr__", [](const Difference& d) {
        return nb::str(
                   "Difference(prompt={}, position={}, drafted={}, plain={}, margin={:.3g}, "
                   "tie={})")
            .format(d.prompt, d.position, d.drafted, d.plain, d.margin, d.tie);
      });
  def_pickle(difference);
  nb::class_<SeededCertificate> certificate(
      m, "Certificate", "Whether texts or images of such a run have the target's law.");
  certificate.def_ro("report", &Certificate::report)
      .def_ro("outputs", &Certificate::outputs,
              "scored again: tokens, transitions of images, inner steps of image tokens")
      .def_ro("drafted", &Certificate::drafted, "0: nothing was tested")
      .def_ro("deterministic", &Certificate::deterministic, "also compared with plain decoding")
      .def_ro("exact", &Certificate::exact)
      .def_ro("differences", &Certificate::differences)
      .def_ro("statistics", &Certificate::statistics)
      .def_ro("interrupted", &Certificate::interrupted)
      .def_ro("kept", &Certificate::kept, "of images: examined drafts that were kept")
      .def_ro("expected", &Certificate::expected, "what an exact rule keeps of them, on average")
      .def_ro("expected_z", &Certificate::expected_z)
      .def_ro("shift", &Certificate::shift, "of images: towards their drafts, in sigmas")
      .def_prop_ro("counterfactuals",
                   [](const SeededCertificate& c) { return c.counterfactuals.places; })
      .def_prop_ro("violations",
                   [](const SeededCertificate& c) { return c.counterfactuals.violations; })
      .def_prop_ro("passed", &Certificate::passed)
      .def_prop_ro("verdict", &Certificate::verdict)
      .def_ro("seed", &SeededCertificate::seed, "of what was certified")
      .def("__repr__", [](const SeededCertificate& c) {
        return nb::str("Certificate({!r}, outputs={}, drafted={}, seed={})")
            .format(c.verdict(), c.outputs, c.drafted, c.seed);
      });
  def_pickle(certificate);
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_statistics(m);
  bind_results(m);
  bind_certificates(m);
  bind_options<TextOptions>(m, "GenerateOptions", "How texts are generated.");
  m.def(
      "generate",
      [](const Model& model, const Drafter& drafter, const std::vector<Token>& prompt,
         const TextOptions& options, const OnText& on_text) {
        Interrupts interrupts;
        return interrupts.during([&] {
          return generate(model, drafter, prompt, options.of(model),
                          listener_of(interrupts, on_text));
        });
      },
      "model"_a, "drafter"_a, "prompt"_a, "options"_a, "on_text"_a = nb::none());
  m.def(
      "generate_batch",
      [](const Model& model, const Drafter& drafter, const Prompts& prompts,
         const TextOptions& options) {
        Interrupts interrupts;
        return interrupts.during([&] {
          return generate_batch(model, drafter, prompts, options.of(model),
                                listener_of(interrupts, {}));
        });
      },
      "model"_a, "drafter"_a, "prompts"_a, "options"_a);
  m.def(
      "certify",
      [](const Model& model, const Drafter& drafter, const Prompts& prompts, std::size_t tokens,
         std::size_t per_prompt, const TextOptions& options) {
        Interrupts interrupts;
        return SeededCertificate{interrupts.during([&] {
                                   return certify(model, drafter, prompts, tokens, per_prompt,
                                                  options.of(model), listener_of(interrupts, {}));
                                 }),
                                 options.seed};
      },
      "model"_a, "drafter"_a, "prompts"_a, "tokens"_a, "per_prompt"_a, "options"_a);
}

}  // namespace forerun::python
