#pragma once

#include <memory>
#include <span>

#include "forerun/engine/text_runner.h"
#include "forerun/generate_options.h"
#include "forerun/model.h"

namespace forerun {

/// What drafts for texts with these options; null: nothing does. It begins with what earlier ones
/// of this Drafter learned, and leaves what it has learned at its end, unless drafts are sampled.
/// @throws UsageError  ratio-on-search with a drafter that finds its drafts
std::shared_ptr<TextDrafter> make_drafter(const Model& target, const Drafter& drafter,
                                          const GenerateOptions& options);

/// True if the drafts of such texts are sampled: then what a drafter learned must not reach another
/// run of the same seed and request, which will draw the same numbers.
bool samples_drafts(const Drafter& drafter, const GenerateOptions& options);

/// What a runner needs of a model, which has to outlive it.
TextModel text_model(const Model& model);
/// The request of a text, without its drafter.
TextRequest text_request(std::span<const Token> prompt, const GenerateOptions& options);
/// Submits it.
/// @throws UsageError  what the runner refuses
void submit(TextRunner& runner, RequestId id, TextRequest request);

}  // namespace forerun
