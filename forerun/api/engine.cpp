#include "forerun/engine.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/diffusion_impl.h"
#include "forerun/api/learned.h"
#include "forerun/api/make_drafter.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/token_image_impl.h"
#include "forerun/engine/image_runner.h"
#include "forerun/engine/text_runner.h"

namespace forerun {
namespace {

// Requests of one model that draft together.
struct DraftGroup {
  const void* drafter;
  Rule rule;
  std::uint32_t max_draft;
  bool fixed;
  bool samples;  // what sampled drafts taught stays apart: see `used`
  auto operator<=>(const DraftGroup&) const = default;
};

struct Texts {
  Texts(const Model& m, const TextRunnerOptions& options)
      : model(m), runner(text_model(model), options) {}

  Model model;
  std::map<DraftGroup, std::shared_ptr<TextDrafter>> drafters;
  // Random numbers that sampled drafts of a group have used: what it learned from them must not
  // plan drafts that are drawn with them again.
  std::map<DraftGroup, std::set<std::pair<std::uint64_t, std::uint32_t>>> used;
  TextRunner runner;
};

struct Images {
  Images(DiffusionModel m, ImageDrafter d, ImageOptions o)
      : model(std::move(m)),
        drafter(std::move(d)),
        options(std::move(o)),
        runner(image_setting(model, drafter, options)) {}

  DiffusionModel model;
  ImageDrafter drafter;
  ImageOptions options;
  ImageRunner runner;
  // Seed and number of its images. Noise depends on the position alone: what an image taught must
  // not plan drafts of one with the same noise.
  std::set<std::pair<std::uint64_t, std::uint32_t>> used;
};

// The same, token by token.
struct TokenImages {
  TokenImages(TokenImageModel m, TokenImageDrafter d, TokenImageOptions o)
      : model(std::move(m)),
        drafter(std::move(d)),
        options(std::move(o)),
        runner(token_image_setting(model, drafter, options)) {}

  TokenImageModel model;
  TokenImageDrafter drafter;
  TokenImageOptions options;
  TokenImageRunner runner;
  std::set<std::pair<std::uint64_t, std::uint32_t>> used;
};

bool alike(const TokenImageOptions& a, const TokenImageOptions& b) {
  const auto shared = [](const TokenImageOptions& o) {
    return std::tie(o.steps, o.guidance, o.linear_guidance, o.variance, o.final_step, o.temperature,
                    o.rule, o.max_draft, o.fixed_draft, o.prefill);
  };
  return shared(a) == shared(b);
}

// Images of both options can share passes.
bool alike(const ImageOptions& a, const ImageOptions& b) {
  const auto shared = [](const ImageOptions& o) {
    return std::tie(o.steps, o.guidance, o.guided_channels, o.variance_share, o.eta, o.max_draft,
                    o.fixed_draft, o.two_calls, o.reuse, o.rule, o.relaxation);
  };
  return shared(a) == shared(b);
}

}  // namespace

struct Engine::Impl {
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

  // The runner of such images, which `all` holds or gets.
  template <class Runs, class M, class D, class O>
  Runs& runner_of(std::vector<std::unique_ptr<Runs>>& all, const M& model, const D& drafter,
                  const O& o) {
    for (const auto& i : all) {
      if (&impl_of(i->model) == &impl_of(model) && &impl_of(i->drafter) == &impl_of(drafter) &&
          alike(i->options, o) && (o.fixed_draft || !i->used.contains({o.seed, o.first}))) {
        return *i;
      }
    }
    O setting = o;
    setting.batch_size = options.max_active;
    return *all.emplace_back(std::make_unique<Runs>(model, drafter, setting));
  }

  std::shared_ptr<TextDrafter> drafter_of(Texts& of, const Drafter& drafter,
                                          const GenerateOptions& o) {
    if (drafter.none() || o.max_draft == 0) return nullptr;
    const bool samples = samples_drafts(drafter, o);
    const DraftGroup group{&Access::learned(drafter), o.rule, o.max_draft, o.fixed_draft, samples};
    std::shared_ptr<TextDrafter>& there = of.drafters[group];
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
  std::vector<std::unique_ptr<Images>> images;
  std::vector<std::unique_ptr<TokenImages>> token_images;
};

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

RequestId Engine::submit(const Model& target, const Drafter& drafter, std::span<const Token> prompt,
                         const GenerateOptions& options,
                         std::optional<std::size_t> log_probabilities) {
  Texts& texts = impl_->texts_of(target);
  TextRequest request = text_request(prompt, options);
  request.log_probabilities = log_probabilities;
  request.report_rounds = options.trace;
  request.drafter = impl_->drafter_of(texts, drafter, options);
  forerun::submit(texts.runner, impl_->next, std::move(request));
  return impl_->next++;
}

RequestId Engine::submit(const DiffusionModel& target, const ImageDrafter& drafter,
                         std::int64_t label, const ImageOptions& options, std::size_t previews) {
  check_images(target, {&label, 1}, options);
  Images& images = impl_->runner_of(impl_->images, target, drafter, options);
  images.runner.submit(
      impl_->next,
      {.label = label, .seed = options.seed, .request = options.first, .previews = previews});
  images.used.emplace(options.seed, options.first);
  return impl_->next++;
}

RequestId Engine::submit(const TokenImageModel& target, const TokenImageDrafter& drafter,
                         std::int64_t label, const TokenImageOptions& options,
                         std::size_t previews) {
  check_token_images(target, drafter, {&label, 1}, options);
  TokenImages& images = impl_->runner_of(impl_->token_images, target, drafter, options);
  images.runner.submit(
      impl_->next,
      {.label = label, .seed = options.seed, .request = options.first, .previews = previews});
  images.used.emplace(options.seed, options.first);
  return impl_->next++;
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
