// While texts are made, the cores belong to the engine's own threads. OpenMP's wait for
// milliseconds after a parallel region, in a loop, and take a core from the passes meanwhile.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "forerun/common.h"
#include "forerun/text.h"
#include "tests/support/demo_model.h"

namespace {

std::atomic<long>& regions() {
  static std::atomic<long> started = 0;
  return started;
}

}  // namespace

// What libtorch starts a parallel region with: this program's symbol comes before libgomp's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) void GOMP_parallel(void (*work)(void*),
                                                                     void* data, unsigned threads,
                                                                     unsigned flags) {
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto next = reinterpret_cast<Parallel>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  ++regions();
  next(work, data, threads, flags);
}

namespace forerun {
namespace {

TEST(ShippedDrafters, StartNoOpenMpRegionForAText) {
  const std::string folder = FORERUN_SOURCE_DIR "/models/smollm2-135m/";
  set_threads(2);
  const Model target = Model::load(demo_model_path(), Precision::kInt8);
  if (regions() == 0) GTEST_SKIP() << "this libtorch has another OpenMP";
  const Message turn{"user", "Why is the sky blue?"};
  const std::vector<Token> prompt = target.encode_chat({&turn, 1});
  for (const std::string& name :
       {std::string("auto"), fmt::format("dflash:{0}dflash+sam:{0}answers", folder),
        fmt::format("tidar:{}tidar+lookup", folder), fmt::format("diffuspec:{}dlm", folder)}) {
    const Drafter drafter = Drafter::load(name, target);
    GenerateOptions o;
    o.max_tokens = 24;
    for (const double temperature : {0.0, 0.8}) {
      o.sampling.temperature = temperature;
      for (const Rule rule : {Rule::kSharedNoise, Rule::kMaximal}) {
        o.rule = rule;
        const long before = regions();
        generate(target, drafter, prompt, o);
        EXPECT_EQ(regions(), before) << name << " at T = " << temperature;
      }
    }
  }
}

}  // namespace
}  // namespace forerun
