#pragma once

/// Many requests at once: texts and images join, run side by side, and leave.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/engine/event.h"
#include "forerun/generate_options.h"
#include "forerun/image.h"
#include "forerun/model.h"
#include "forerun/token_image.h"

#pragma GCC visibility push(default)
namespace forerun {

struct EngineOptions {
  std::size_t max_active = 0;  ///< requests of one model that run at a time; 0 = all that fit
  /// Memory for the keys and values of a model's texts, in bytes, of ended texts included; 0 = no
  /// limit. If it is full, ended texts are forgotten first, then the newest request waits.
  std::size_t kv_bytes = 0;
  /// Ended texts whose keys and values are kept, so that a text that begins alike (the next turn of
  /// a conversation, a system prompt) reads only what is new; 0 = none. The text is the same in
  /// int8 and int4, and the same up to rounding in float precisions.
  std::size_t max_prefixes = 64;
};

/// Memory of a model's texts.
struct EngineMemory {
  std::size_t used = 0, limit = 0;  ///< bytes; limit: SIZE_MAX = none
  std::size_t prefixes = 0;         ///< ended texts whose keys and values are kept
  std::size_t active = 0;           ///< texts that run
};

/// Generates texts and images for many requests: `submit`, then `step` until nothing is left.
/// Sampling, rule, seed, drafter and limits are each request's own. Requests may join and leave
/// between any two steps. A text whose rule keeps it (temperature 0, shared-noise, drafts found
/// without a model) is that of the request alone; in int8 and int4 bit for bit, in float precisions
/// up to rounding.
///
/// Requests of the same seed and `request` number draw the same random numbers. Give each its own;
/// two such requests with sampled drafts of adaptive length must not run at the same time, or one
/// may tell how the other's drafts end. Not thread-safe: one thread calls it. Models and drafters
/// are kept alive while the engine lives.
class Engine {
 public:
  explicit Engine(const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// @param log_probabilities  reports every output with its log-probability, and this many of the
  /// likeliest tokens beside it
  /// @throws UsageError  as `generate`
  RequestId submit(const Model& target, const Drafter& drafter, std::span<const Token> prompt,
                   const GenerateOptions& options,
                   std::optional<std::size_t> log_probabilities = std::nullopt);
  /// One image of a class, number options.first of its seed. `batch_size`, `vae`, `pictures` and
  /// `trace` are not used: values are reported, of a latent model those of the latent.
  /// @param previews  about so many predictions of the finished image
  /// @throws UsageError  as `generate_images`
  RequestId submit(const DiffusionModel& target, const ImageDrafter& drafter, std::int64_t label,
                   const ImageOptions& options, std::size_t previews = 0);
  /// One image of a class, token by token; the rest as above. Previews are the tokens so far.
  /// @throws UsageError  as `generate_images`
  RequestId submit(const TokenImageModel& target, const ImageDrafter& drafter, std::int64_t label,
                   const TokenImageOptions& options, std::size_t previews = 0);

  bool busy() const;
  /// One round of everything that runs: drafts, a pass of each model, what is kept. Errors of a
  /// request are events; what is thrown (no memory) leaves the requests as they are.
  std::vector<Event> step();
  /// Ends a request with what it has; the next step reports it as interrupted. Unknown requests,
  /// and finished ones, are ignored.
  void cancel(RequestId id);

  EngineMemory memory(const Model& target) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun
#pragma GCC visibility pop
