#include "forerun/engine.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/image_impl.h"
#include "forerun/api/learned.h"
#include "forerun/api/make_drafter.h"
#include "forerun/api/model_impl.h"
#include "forerun/engine/text_runner.h"

namespace forerun {
namespace {

// Images of both options can share passes.
bool alike(const TokenImageOptions& a, const TokenImageOptions& b) {
  const auto shared = [](const TokenImageOptions& o) {
    return std::tie(o.steps, o.guidance, o.linear_guidance, o.variance, o.final_step, o.temperature,
                    o.rule, o.max_draft, o.fixed_draft, o.prefill, o.passes);
  };
  return shared(a) == shared(b);
}

bool alike(const ImageOptions& a, const ImageOptions& b) {
  const auto shared = [](const ImageOptions& o) {
    return std::tie(o.steps, o.guidance, o.guided_channels, o.variance_share, o.eta, o.max_draft,
                    o.fixed_draft, o.two_calls, o.reuse, o.rule, o.relaxation);
  };
  return shared(a) == shared(b);
}

}  // namespace

struct Engine::Impl {
  // Requests of one model that draft together.
  struct DraftGroup {
    const void* drafter;
    Rule rule;
    std::uint32_t max_draft;
    bool fixed;
    bool samples;  // what sampled drafts taught stays apart: see `used`
    auto operator<=>(const DraftGroup&) const = default;
  };

  struct GroupDrafter {
    std::shared_ptr<TextDrafter> drafter;  // keeps a copy of the handle that it was made for
    std::weak_ptr<const Drafter::Learned> learned;
    // No text runs with it, and no handle is left to submit others with.
    bool ended() const { return drafter.use_count() <= 1 && learned.use_count() <= 1; }
  };

  struct Texts {
    Texts(const Model& m, const TextRunnerOptions& options)
        : model(m), runner(text_model(model), options) {}

    Model model;
    std::map<DraftGroup, GroupDrafter> drafters;
    // Random numbers that sampled drafts of a group have used: what it learned from them must not
    // plan drafts that are drawn with them again.
    std::map<DraftGroup, std::set<std::pair<std::uint64_t, std::uint32_t>>> used;
    TextRunner runner;
  };

  // Images of one kind that run side by side.
  template <class M>
  struct Images {
    Images(const M& m, const ImageDrafter& d, const typename M::Options& o)
        : model(m), drafter(d), options(o), runner(image_setting(model, drafter, options)) {}

    M model;
    ImageDrafter drafter;
    typename M::Options options;
    typename M::Impl::Runner runner;
    // Seed and number of its images. Noise depends on the position alone: what an image taught must
    // not plan drafts of one with the same noise.
    std::set<std::pair<std::uint64_t, std::uint32_t>> used;
  };
  template <class M>
  using AllImages = std::vector<std::unique_ptr<Images<M>>>;

  explicit Impl(const EngineOptions& o) : options(o) {}

  Texts& texts_of(const Model& model) {
    for (const auto& t : texts) {
      if (&impl_of(t->model) == &impl_of(model)) return *t;
    }
    texts.push_back(
        std::make_unique<Texts>(model, TextRunnerOptions{.max_active = options.max_active,
                                                         .kv_bytes = options.kv_bytes,
                                                         .max_prefixes = options.max_prefixes}));
    return *texts.back();
  }

  // Adds an image to those of its setting in `all`, or to a runner of its own.
  template <class M>
  RequestId submit(AllImages<M>& all, const M& model, const ImageDrafter& drafter,
                   std::int64_t label, const typename M::Options& o, std::size_t previews) {
    check_images(model, drafter, {&label, 1}, o);
    auto at = std::find_if(all.begin(), all.end(), [&](const auto& i) {
      return &impl_of(i->model) == &impl_of(model) && &impl_of(i->drafter) == &impl_of(drafter) &&
             alike(i->options, o) && (o.fixed_draft || !i->used.contains({o.seed, o.first}));
    });
    if (at == all.end()) {
      typename M::Options setting = o;
      setting.batch_size = options.max_active;
      at = all.insert(at, std::make_unique<Images<M>>(model, drafter, setting));
    }
    (*at)->runner.submit(
        next, {.label = label, .seed = o.seed, .request = o.first, .previews = previews});
    (*at)->used.emplace(o.seed, o.first);
    return next++;
  }

  std::shared_ptr<TextDrafter> drafter_of(Texts& of, const Drafter& drafter,
                                          const GenerateOptions& o) {
    if (drafter.none() || o.max_draft == 0) return nullptr;
    const bool samples = samples_drafts(drafter, o);
    const DraftGroup group{&Access::learned(drafter), o.rule, o.max_draft, o.fixed_draft, samples};
    for (auto at = of.drafters.begin(); at != of.drafters.end();) {
      if (at->second.ended()) {
        of.used.erase(at->first);
        at = of.drafters.erase(at);
      } else {
        ++at;
      }
    }
    GroupDrafter& kept = of.drafters[group];
    kept.learned = Access::shared_learned(drafter);
    std::shared_ptr<TextDrafter>& there = kept.drafter;
    if (samples && !o.fixed_draft && !of.used[group].emplace(o.seed, o.request).second) {
      there.reset();  // running requests keep theirs
      of.used[group] = {{o.seed, o.request}};
    }
    if (!there) there = make_drafter(of.model, drafter, o);
    return there;
  }

  template <class Each>
  void each_runner(Each each) {
    for (const auto& t : texts) each(t->runner);
    for (const auto& i : images) each(i->runner);
    for (const auto& i : token_images) each(i->runner);
  }

  EngineOptions options;
  RequestId next = 1;
  std::vector<Event> pending;  // of cancelled requests
  std::vector<std::unique_ptr<Texts>> texts;
  AllImages<DiffusionModel> images;
  AllImages<TokenImageModel> token_images;
};

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

RequestId Engine::submit(const Model& target, const Drafter& drafter, std::span<const Token> prompt,
                         const GenerateOptions& options,
                         std::optional<std::size_t> log_probabilities) {
  Impl::Texts& texts = impl_->texts_of(target);
  TextRequest request = text_request(prompt, options);
  request.log_probabilities = log_probabilities;
  request.report_rounds = options.trace;
  request.drafter = impl_->drafter_of(texts, drafter, options);
  forerun::submit(texts.runner, impl_->next, std::move(request));
  return impl_->next++;
}

RequestId Engine::submit(const DiffusionModel& target, const ImageDrafter& drafter,
                         std::int64_t label, const ImageOptions& options, std::size_t previews) {
  return impl_->submit(impl_->images, target, drafter, label, options, previews);
}

RequestId Engine::submit(const TokenImageModel& target, const ImageDrafter& drafter,
                         std::int64_t label, const TokenImageOptions& options,
                         std::size_t previews) {
  return impl_->submit(impl_->token_images, target, drafter, label, options, previews);
}

bool Engine::busy() const {
  bool busy = !impl_->pending.empty();
  impl_->each_runner([&](const Runner& runner) { busy = busy || runner.busy(); });
  return busy;
}

std::vector<Event> Engine::step() {
  std::vector<Event> events = std::exchange(impl_->pending, {});
  try {
    impl_->each_runner([&](Runner& runner) {
      if (runner.busy()) runner.step(events);
    });
  } catch (...) {  // what was reported is not lost
    impl_->pending = std::move(events);
    throw;
  }
  const auto idle = [](const auto& images) { return !images->runner.busy(); };
  std::erase_if(impl_->images, idle);
  std::erase_if(impl_->token_images, idle);
  return events;
}

void Engine::cancel(RequestId id) {
  bool found = false;
  impl_->each_runner([&](Runner& runner) { found = found || runner.cancel(id, impl_->pending); });
}

EngineMemory Engine::memory(const Model& target) const {
  const auto texts = std::find_if(impl_->texts.begin(), impl_->texts.end(), [&](const auto& t) {
    return &impl_of(t->model) == &impl_of(target);
  });
  if (texts == impl_->texts.end()) return {};
  TextRunner& runner = (*texts)->runner;
  return {.used = runner.pool().used(),
          .limit = runner.pool().limit(),
          .prefixes = runner.prefixes().size(),
          .active = runner.active()};
}

}  // namespace forerun
