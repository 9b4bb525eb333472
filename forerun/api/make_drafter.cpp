#include "forerun/api/make_drafter.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/learned.h"
#include "forerun/api/model_impl.h"
#include "forerun/methods/dflash/dflash_drafter.h"
#include "forerun/methods/dflash/dflash_lookup.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/draft_model/draft_model.h"
#include "forerun/methods/lookup/lookup.h"

namespace forerun {
namespace {

bool carries(const Drafter& drafter, const GenerateOptions& options) {
  return !options.fixed_draft && !samples_drafts(drafter, options);
}

DraftLength control_of(const Model& target, const Drafter& drafter,
                       const GenerateOptions& options) {
  if (options.fixed_draft) return DraftLength({.adaptive = false});
  if (!carries(drafter, options)) return DraftLength();
  Drafter::Learned& learned = Access::learned(drafter);
  const std::scoped_lock lock(learned.mutex);
  const bool fits = learned.target == &impl_of(target) && learned.rule == options.rule;
  return fits && learned.control ? *learned.control : DraftLength();
}

// Keeps the models that the drafter refers to, and at its end what it has learned.
template <class Kind>
class HeldDrafter final : public ControlledDrafter<Kind> {
 public:
  HeldDrafter(Kind kind, const Model& target, const Drafter& drafter,
              const GenerateOptions& options)
      : ControlledDrafter<Kind>(std::move(kind), control_of(target, drafter, options),
                                options.max_draft),
        target_(target),
        drafter_(drafter),
        rule_(options.rule),
        carries_(carries(drafter, options)) {}
  HeldDrafter(const HeldDrafter&) = delete;
  HeldDrafter& operator=(const HeldDrafter&) = delete;
  ~HeldDrafter() override {
    if (!carries_) return;
    Drafter::Learned& learned = Access::learned(drafter_);
    const std::scoped_lock lock(learned.mutex);
    learned.control = *this->control();
    learned.target = &impl_of(target_);
    learned.rule = rule_;
  }

 private:
  Model target_;
  Drafter drafter_;
  Rule rule_;
  bool carries_;
};

template <class Kind>
std::shared_ptr<TextDrafter> held(Kind kind, const Model& target, const Drafter& drafter,
                                  const GenerateOptions& options) {
  return std::make_shared<HeldDrafter<Kind>>(std::move(kind), target, drafter, options);
}

}  // namespace

bool samples_drafts(const Drafter& drafter, const GenerateOptions& options) {
  return drafter.has_laws() && !options.sampling.greedy() &&
         draft_mode(options.rule) == DraftMode::kSample;
}

std::shared_ptr<TextDrafter> make_drafter(const Model& target, const Drafter& drafter,
                                          const GenerateOptions& options) {
  if (drafter.none()) return nullptr;
  const Drafter::Block* block = Access::block(drafter);
  if (options.rule == Rule::kRatioOnSearch &&
      (!drafter.has_laws() || (block != nullptr && block->with_lookup))) {
    throw UsageError(
        fmt::format("ratio-on-search needs a drafter that scores its drafts (draft-model:PATH, "
                    "dflash:PATH); '{}' finds some: use --rule maximal, which is exact",
                    drafter.name()));
  }
  if (options.max_draft == 0) return nullptr;
  if (block != nullptr) {
    DFlashDrafter dflash(block->network);
    if (!block->with_lookup) return held(std::move(dflash), target, drafter, options);
    return held(DFlashLookupDrafter(std::move(dflash)), target, drafter, options);
  }
  if (!drafter.model()) return held(LookupDrafter(), target, drafter, options);
  return held(DraftModelDrafter(impl_of(*drafter.model()).lm), target, drafter, options);
}

TextModel text_model(const Model& model) {
  const Model::Impl& impl = impl_of(model);
  return {impl.lm, impl.tokenizer, impl.end_tokens};
}

TextRequest text_request(std::span<const Token> prompt, const GenerateOptions& options) {
  return {.prompt = {prompt.begin(), prompt.end()},
          .settings = {.sampling = options.sampling, .rule = options.rule},
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
