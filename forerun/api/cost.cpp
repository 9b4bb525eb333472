#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/handover.h"
#include "forerun/tensor/cpu/thread_team.h"
#include "forerun/text.h"

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Bytes a second of a plain read on all threads: the best of a few, out of a buffer that fits no
// cache.
double read_speed(int threads) {
  constexpr std::int64_t kWords = std::int64_t{1} << 25;  // 256 MiB
  // Where the weights lie: on huge pages, if there are any.
  const auto buffer = Arena(0).make<std::uint64_t>(kWords);
  std::fill_n(buffer.get(), kWords, std::uint64_t{0});
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 8);
  double best = 0.0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = Clock::now();
    ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
      w.each(kWords, kWords / (8 * threads), [&](std::int64_t begin, std::int64_t end) {
        const std::uint64_t* words = buffer.get();
        sums[static_cast<std::size_t>(w.index()) * 8] +=
            std::accumulate(words + begin, words + end, std::uint64_t{0});
      });
    });
    best = std::max(best, static_cast<double>(kWords) * 8.0 / since(start));
  }
  // Their sum is zero, which the compiler cannot know.
  return best + static_cast<double>(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}));
}

void check(const Model& model, const CostOptions& o) {
  const auto most = o.rows.empty() ? 0 : *std::max_element(o.rows.begin(), o.rows.end());
  const auto least = o.rows.empty() ? 0 : *std::min_element(o.rows.begin(), o.rows.end());
  constexpr int kMostSequences = 4096, kMostRepeats = 100'000;
  if (least < 1 || o.sequences < 1 || o.repeats < 1) {
    throw UsageError("cost: rows, sequences and repeats start at 1");
  }
  if (o.sequences > kMostSequences || o.repeats > kMostRepeats) {
    throw UsageError(
        fmt::format("cost: at most {} sequences and {} repeats", kMostSequences, kMostRepeats));
  }
  if (o.prefix > model.context() || o.prefix + static_cast<std::size_t>(most) > model.context()) {
    throw UsageError(fmt::format("cost: a prefix of {} and {} tokens do not fit the context of {}",
                                 o.prefix, most, model.context()));
  }
}

// Ids spread over the vocabulary, the same in every run.
std::vector<Token> some_tokens(std::size_t n, std::size_t vocab) {
  std::vector<Token> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<Token>((i * 7919 + 101) % vocab);
  return out;
}

// What a pass reads of the keys, values and states of one sequence.
double cache_bytes(const DecoderLm& lm, std::size_t prefix) {
  const DecoderConfig& c = lm.config;
  const double width = has_int8_products(lm.precision)    ? 1.0
                       : lm.precision == Precision::kBF16 ? 2.0
                                                          : 4.0;
  double positions = 0.0;  // over all layers with attention
  for (std::size_t i = 0; i < c.sliding.size(); ++i) {
    const auto window = static_cast<std::size_t>(c.window);
    const std::size_t seen = c.sliding[i] ? std::min(window, prefix) : prefix;
    positions += c.recurs(i) ? 0.0 : static_cast<double>(seen);
  }
  double state = 0.0;
  if (!c.recurrent.none()) {
    state = static_cast<double>(c.recurrent_count() * state_shape(c, 1).state()) * sizeof(float);
  }
  return static_cast<double>(c.kv_heads * c.head_dim) * 2.0 * width * positions + state;
}

}  // namespace

CostCurve measure_cost(const Model& model, const CostOptions& options) {
  check(model, options);
  const c10::InferenceMode no_autograd;
  const DecoderLm& lm = impl_of(model).lm;
  CostCurve out;
  out.threads = at::get_num_threads();
  out.weight_bytes = static_cast<double>(lm.weight_bytes());
  out.cache_bytes = cache_bytes(lm, options.prefix) * options.sequences;
  out.bytes_per_second = read_speed(out.threads);

  const std::vector<Token> prefix = some_tokens(options.prefix, model.vocab());
  std::vector<KvCache> caches;
  const auto go_on = [&] { return !options.go_on || options.go_on(); };
  try {
    for (int i = 0; i < options.sequences; ++i) {
      caches.push_back(lm.make_cache());
      prefill(lm, caches.back(), prefix, nullptr, {}, options.go_on);
      caches.back().hold(caches.back().length());
    }
  } catch (const Interrupted&) {
    out.interrupted = true;
    return out;
  }
  std::vector<std::vector<double>> seconds(options.rows.size());
  CommonCache common;
  for (int repeat = -1; repeat < options.repeats && go_on(); ++repeat) {  // the first warms up
    for (std::size_t i = 0; i < options.rows.size() && go_on(); ++i) {
      const std::vector<Token> tokens =
          some_tokens(static_cast<std::size_t>(options.rows[i]), model.vocab());
      std::vector<SequenceSpan> spans;
      for (KvCache& cache : caches) {
        spans.push_back({.cache = &cache, .tokens = tokens, .scored = options.rows[i]});
      }
      common.ask();
      const auto start = Clock::now();
      forward(lm, spans);
      if (repeat >= 0) seconds[i].push_back(since(start));
      for (KvCache& cache : caches) cache.truncate(static_cast<std::int64_t>(prefix.size()));
    }
  }
  for (std::size_t i = 0; i < options.rows.size(); ++i) {
    if (!seconds[i].empty()) out.points.push_back({options.rows[i], median(seconds[i])});
  }
  out.common_cache = common.share();
  out.interrupted = !go_on();
  return out;
}

std::optional<bool> threads_share_cache() {
  return threads_have_common_cache(at::get_num_threads());
}

void CommonCache::ask() {
  if (const auto common = threads_share_cache()) {
    asked_ += 1.0;
    common_ += *common ? 1.0 : 0.0;
  }
}

Machine machine() {
  const CpuFeatures& cpu = cpu_features();
  Machine m{.cpu = cpu.name, .int8 = cpu.int8(), .kernels = {}, .threads = at::get_num_threads()};
  if (!m.int8) {
    m.kernels = "no AVX2: float32 is the fastest there is here";
  } else {
    m.kernels =
        fmt::format("int8 through {}, bf16 products {}", cpu.avx512_vnni ? "AVX-512 VNNI" : "AVX2",
                    cpu.fast_bf16 ? "native" : "through float32");
  }
  return m;
}

}  // namespace forerun
