#include "forerun/api/make_drafter.h"

#include <mutex>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/learned.h"
#include "forerun/api/model_impl.h"

namespace forerun {
namespace {

// Sampled drafts must not be planned from an earlier run of the same seed and request: that run was
// decided by the numbers this one will draw again.
bool carries(const Drafter& drafter, const GenerateOptions& options) {
  const bool sampled = drafter.has_laws() && draft_mode(options.rule) == DraftMode::kSample;
  return !options.fixed_draft && !sampled;
}

// Goes on from what earlier runs with this drafter learned.
DraftLength control_of(const Model& target, const Drafter& drafter,
                       const GenerateOptions& options) {
  if (options.fixed_draft) return DraftLength({.adaptive = false});
  if (!carries(drafter, options)) return DraftLength();
  Drafter::Learned& learned = Access::learned(drafter);
  const std::scoped_lock lock(learned.mutex);
  const bool fits = learned.target == &impl_of(target) && learned.rule == options.rule;
  return fits && learned.control ? *learned.control : DraftLength();
}

template <class Kind>
AnyDrafter adaptive(Kind kind, const Model& target, const Drafter& drafter,
                    const GenerateOptions& options) {
  return AnyDrafter(AdaptiveDrafter<Kind>(std::move(kind), control_of(target, drafter, options),
                                          options.max_draft));
}

}  // namespace

AnyDrafter make_drafter(const Model& target, const Drafter& drafter, const GenerateOptions& options,
                        const GoOn& go_on) {
  if (drafter.none() || options.max_draft == 0) return AnyDrafter(NoDrafter());
  if (const Drafter::Block* block = Access::block(drafter)) {
    DFlashDrafter dflash(block->network, options.sampling, draft_mode(options.rule),
                         options.rule == Rule::kRatioOnSearch);
    if (!block->with_lookup) return adaptive(std::move(dflash), target, drafter, options);
    return adaptive(DFlashLookupDrafter(std::move(dflash)), target, drafter, options);
  }
  if (!drafter.model()) return adaptive(LookupDrafter(), target, drafter, options);
  return adaptive(DraftModelDrafter(impl_of(*drafter.model()).lm, options.sampling,
                                    draft_mode(options.rule), go_on),
                  target, drafter, options);
}

void keep_learned(const Model& target, const Drafter& drafter, const GenerateOptions& options,
                  const AnyDrafter& proposer) {
  if (!carries(drafter, options) || proposer.control() == nullptr) return;
  Drafter::Learned& learned = Access::learned(drafter);
  const std::scoped_lock lock(learned.mutex);
  learned.control = *proposer.control();
  learned.target = &impl_of(target);
  learned.rule = options.rule;
}

}  // namespace forerun
