#include "forerun/api/make_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/learned.h"
#include "forerun/api/model_impl.h"
#include "forerun/core/draft_length.h"
#include "forerun/methods/draft_mode.h"

namespace forerun {
namespace {

DraftLength control_of(const Model& target, const Drafter& drafter,
                       const GenerateOptions& options) {
  DraftLength out({.adaptive = !options.fixed_draft});
  if (samples_drafts(drafter, options)) return out;
  Drafter::Learned& learned = Access::learned(drafter);
  const std::scoped_lock lock(learned.mutex);
  if (!learned.fits(target, options.rule)) return out;
  if (!options.fixed_draft) return *learned.control;
  out.trees() = std::as_const(*learned.control).trees();
  return out;
}

// Of a fixed length only what is known of drafts is kept, not what passes cost.
void keep_learned(const TextDrafter& made, const Model& target, const Drafter& drafter,
                  const GenerateOptions& options) {
  const DraftLength* const control = made.control();
  if (control == nullptr) return;
  Drafter::Learned& learned = Access::learned(drafter);
  const std::scoped_lock lock(learned.mutex);
  if (control->adaptive()) {
    learned.control = *control;
  } else {
    if (!learned.fits(target, options.rule)) learned.control = DraftLength();
    learned.control->trees() = control->trees();
  }
  learned.target = &impl_of(target);
  learned.rule = options.rule;
}

}  // namespace

bool samples_drafts(const Drafter& drafter, const GenerateOptions& options) {
  return drafter.has_laws() && !options.sampling.greedy() &&
         draft_mode(options.rule) == DraftMode::kSample;
}

std::shared_ptr<TextDrafter> make_drafter(const Model& target, const Drafter& drafter,
                                          const GenerateOptions& options) {
  if (drafter.none()) return nullptr;
  if (options.rule == Rule::kRatioOnSearch && Access::method(drafter)->finds()) {
    throw UsageError(fmt::format(
        "ratio-on-search needs a drafter that scores its drafts (draft-model:PATH, "
        "dflash:PATH, diffuspec:PATH); '{}' finds some: use --rule maximal, which is exact",
        drafter.name()));
  }
  if (options.max_draft == 0 && drafter.keeps_law()) return nullptr;
  std::shared_ptr<TextDrafter> made =
      Access::method(drafter)->make({.control = control_of(target, drafter, options),
                                     .max_draft = options.max_draft,
                                     .samples = samples_drafts(drafter, options),
                                     .trees = options.exact()});
  TextDrafter* const pointer = made.get();
  // Keeps the models that it refers to, and at its end what it has learned.
  return {pointer, [target, drafter, options, made = std::move(made)](TextDrafter*) mutable {
            if (!samples_drafts(drafter, options)) keep_learned(*made, target, drafter, options);
            made.reset();
          }};
}

TextModel text_model(const Model& model) {
  const Model::Impl& impl = impl_of(model);
  return {impl.lm, impl.tokenizer, impl.end_tokens};
}

TextRequest text_request(std::span<const Token> prompt, const GenerateOptions& options) {
  if (is_for_chains(options.rule)) {
    throw UsageError(
        fmt::format("rule {} is for image tokens; texts have maximal, block, match "
                    "and shared-noise",
                    name_of(options.rule)));
  }
  if (std::find(options.stop.begin(), options.stop.end(), "") != options.stop.end()) {
    throw UsageError("stop: an empty text ends no answer; leave it out");
  }
  return {
      .prompt = {prompt.begin(), prompt.end()},
      .settings = {.sampling = options.sampling, .rule = options.rule, .changes = options.changes},
      .seed = options.seed,
      .request = options.request,
      .max_tokens = options.max_tokens,
      .stop = options.stop,
      .ignore_end = options.ignore_end,
      .log_probabilities = std::nullopt,
      .drafter = nullptr,
      .observer = {}};
}

void submit(TextRunner& runner, RequestId id, TextRequest request) {
  try {
    runner.submit(id, std::move(request));
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

}  // namespace forerun
