#pragma once

#include <forerun/token_image.h>

#include <array>
#include <utility>

#include "options.h"

namespace forerun::python {

/// A field whose values have names.
template <class Enum, std::size_t kValues>
struct NamedField {
  using Names = std::array<std::pair<const char*, Enum>, kValues>;
  static constexpr const char* annotation() { return "str"; }
  static constexpr const char* returned() { return annotation(); }
  static Enum from(const Names& names, const std::string& field, nb::handle value) {
    const auto text = Field<std::string>::from(field, value);
    std::string known;
    for (const auto& [name, of] : names) {
      if (text == name) return of;
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    throw UsageError(field + ": no '" + text + "'; use one of " + known);
  }
  static nb::object to(const Names& names, Enum value) {
    for (const auto& [name, of] : names) {
      if (of == value) return nb::cast(std::string(name));
    }
    return nb::none();
  }
};

template <>
struct Field<TokenVariance> : NamedField<TokenVariance, 3> {
  static constexpr Names kNames = {{{"calibrated", TokenVariance::kCalibrated},
                                    {"beta", TokenVariance::kBeta},
                                    {"posterior", TokenVariance::kPosterior}}};
  static TokenVariance from(const std::string& field, nb::handle value) {
    return NamedField::from(kNames, field, value);
  }
  static nb::object to(TokenVariance value) { return NamedField::to(kNames, value); }
};

template <>
struct Field<TokenFinalStep> : NamedField<TokenFinalStep, 2> {
  static constexpr Names kNames = {
      {{"truncate", TokenFinalStep::kTruncate}, {"noisy", TokenFinalStep::kNoisy}}};
  static TokenFinalStep from(const std::string& field, nb::handle value) {
    return NamedField::from(kNames, field, value);
  }
  static nb::object to(TokenFinalStep value) { return NamedField::to(kNames, value); }
};

/// What the options of both kinds of image have.
template <class O, class Visit>
void each_common_field(Visit&& visit) {
  visit(
      "steps", [](O & o) -> auto& { return o.steps; }, "of sampling; of a token's noise");
  visit(
      "guidance", [](O & o) -> auto& { return o.guidance; }, "classifier-free; 1: none");
  visit(
      "seed", [](O& o) { return SeedField{o.seed}; },
      "of all random numbers; None: one that is drawn");
  visit(
      "first", [](O & o) -> auto& { return o.first; }, "place of the first image");
  visit(
      "batch_size", [](O & o) -> auto& { return o.batch_size; }, "images at a time");
  visit(
      "max_draft", [](O & o) -> auto& { return o.max_draft; }, "drafts a round at most; 0: plain");
  visit(
      "fixed_draft", [](O & o) -> auto& { return o.fixed_draft; }, "always draft that many");
  visit(
      "rule", [](O & o) -> auto& { return o.rule; }, "the coupling of drafts and outputs");
  visit(
      "vae", [](O& o) { return PathField{o.vae}; }, "folder of the decoder of latents");
  visit(
      "pictures", [](O & o) -> auto& { return o.pictures; }, "False: values alone are kept");
}

template <>
struct Fields<ImageOptions> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = ImageOptions;
    each_common_field<O>(visit);
    visit(
        "guided_channels", [](O & o) -> auto& { return o.guided_channels; },
        "0: as the model's source does");
    visit(
        "variance_share", [](O & o) -> auto& { return o.variance_share; },
        "0: the posterior's variance, 1: beta, between: interpolated");
    visit(
        "eta", [](O & o) -> auto& { return o.eta; },
        "DDIM: share of the variance that is drawn anew");
    visit(
        "two_calls", [](O & o) -> auto& { return o.two_calls; },
        "a separate pass before drafting, as published");
    visit(
        "reuse", [](O & o) -> auto& { return o.reuse; },
        "predictions use the target's output for discarded states");
    visit(
        "relaxation", [](O & o) -> auto& { return o.relaxation; }, "INEXACT unless empty");
  }
};

template <>
struct Fields<TokenImageOptions> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = TokenImageOptions;
    each_common_field<O>(visit);
    visit(
        "linear_guidance", [](O & o) -> auto& { return o.linear_guidance; },
        "guidance rises along the image");
    visit(
        "variance", [](O & o) -> auto& { return o.variance; }, "of a token's inner steps");
    visit(
        "final_step", [](O & o) -> auto& { return o.final_step; }, "how a token's chain ends");
    visit(
        "temperature", [](O & o) -> auto& { return o.temperature; },
        "times the noise of every inner step");
    visit(
        "prefill", [](O & o) -> auto& { return o.prefill; },
        "tokens that the target makes alone first");
    visit(
        "passes", [](O & o) -> auto& { return o.passes; },
        "masked form: passes over an image, 0 = 64 or as many as tokens");
  }
};

}  // namespace forerun::python
