#pragma once

#include <forerun/generate_options.h>

#include "options.h"

namespace forerun::python {

template <>
struct Fields<GenerateOptions> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = GenerateOptions;
    visit(
        "temperature", [](O & o) -> auto& { return o.sampling.temperature; }, "0: greedy");
    visit(
        "top_k", [](O & o) -> auto& { return o.sampling.top_k; }, "0: all");
    visit(
        "top_p", [](O & o) -> auto& { return o.sampling.top_p; }, "1: all");
    visit(
        "min_p", [](O & o) -> auto& { return o.sampling.min_p; }, "0: all");
    visit(
        "rule", [](O & o) -> auto& { return o.rule; }, "the coupling of drafts and outputs");
    visit(
        "max_draft", [](O & o) -> auto& { return o.max_draft; }, "drafts a round at most");
    visit(
        "fixed_draft", [](O & o) -> auto& { return o.fixed_draft; },
        "always draft that many, even if it is slower");
    visit(
        "max_tokens", [](O & o) -> auto& { return o.max_tokens; }, "outputs at most");
    visit(
        "seed", [](O & o) -> auto& { return o.seed; }, "of all random numbers");
    visit(
        "request", [](O & o) -> auto& { return o.request; }, "separates generations of one seed");
    visit(
        "stop", [](O & o) -> auto& { return o.stop; },
        "strings that end the text and are cut from it");
    visit(
        "ignore_end", [](O & o) -> auto& { return o.ignore_end; },
        "continue after end-of-sequence tokens");
    visit(
        "trace", [](O & o) -> auto& { return o.trace; },
        "keep the rounds of the first text; in an engine: report every round");
    visit(
        "batch_size", [](O & o) -> auto& { return o.batch_size; },
        "texts of a batch at a time; 0: all");
  }
};

}  // namespace forerun::python
