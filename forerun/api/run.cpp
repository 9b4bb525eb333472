#include "forerun/api/run.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <utility>

#include "forerun/api/text_run.h"

namespace forerun {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

template <class... Arguments>
std::unique_ptr<TextRun> make_run(const Arguments&... arguments) {
  const c10::InferenceMode no_autograd;
  return std::make_unique<TextRun>(arguments...);
}

}  // namespace

Generation::Generation(const Model& target, const Drafter& drafter,
                       std::span<const std::vector<Token>> prompts, const GenerateOptions& options,
                       const Listener& listener)
    : run_(make_run(target, drafter, prompts, options, listener)) {}
Generation::~Generation() = default;
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;

bool Generation::advance(std::size_t outputs) { return run_->advance(outputs); }
std::size_t Generation::outputs() const { return run_->outputs(); }
std::vector<Generated> Generation::finish() { return run_->finish(); }

std::vector<Generated> run(const Model& target, const Drafter& drafter,
                           std::span<const std::vector<Token>> prompts,
                           const GenerateOptions& options, const Listener& listener,
                           const RoundObserver& observer, std::span<const std::uint32_t> requests) {
  const auto texts = make_run(target, drafter, prompts, options, listener, observer, requests);
  texts->advance(kAll);
  return texts->finish();
}

Generated generate(const Model& target, const Drafter& drafter, std::span<const Token> prompt,
                   const GenerateOptions& options, const Listener& listener) {
  const std::vector<Token> one(prompt.begin(), prompt.end());
  return std::move(run(target, drafter, {&one, 1}, options, listener).front());
}

std::vector<Generated> generate_batch(const Model& target, const Drafter& drafter,
                                      std::span<const std::vector<Token>> prompts,
                                      const GenerateOptions& options, const Listener& listener) {
  return run(target, drafter, prompts, options, listener);
}

void set_threads(int threads) {
  constexpr int kMost = 1024;
  if (threads < 0 || threads > kMost) {
    throw UsageError(fmt::format("{} threads: 0, as it is, to {}", threads, kMost));
  }
  if (threads > 0) at::set_num_threads(threads);
}

}  // namespace forerun
