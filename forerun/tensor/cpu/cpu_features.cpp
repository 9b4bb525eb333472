#include "forerun/tensor/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <cstring>
#endif

namespace forerun {
namespace {

#if defined(__x86_64__)
std::string brand() {
  std::array<char, 49> text{};
  for (unsigned i = 0; i < 3; ++i) {
    std::array<unsigned, 4> r{};
    if (__get_cpuid(0x80000002U + i, &r[0], &r[1], &r[2], &r[3]) == 0) return "x86-64";
    std::memcpy(text.data() + 16 * static_cast<std::size_t>(i), r.data(), 16);
  }
  std::string out(text.data());
  out.erase(out.find_last_not_of(' ') + 1);
  return out.empty() ? "x86-64" : out;
}

// By the processor's own word: not every compiler's __builtin_cpu_supports knows the name.
bool has_tiles() {
  std::array<unsigned, 4> r{};
  constexpr unsigned kTile = 1U << 24U, kInt8 = 1U << 25U;
  return __get_cpuid_count(7, 0, &r[0], &r[1], &r[2], &r[3]) != 0 && (r[3] & kTile) != 0 &&
         (r[3] & kInt8) != 0;
}

// Of data, as AMD's processors tell it.
unsigned first_level_kilobytes() {
  std::array<unsigned, 4> r{};
  return __get_cpuid(0x80000005U, &r[0], &r[1], &r[2], &r[3]) != 0 ? r[2] >> 24U : 0;
}

// The system keeps room for tiles in a process's saved state only if the process asks for it.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h, since Linux 5.16
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

CpuFeatures detect() {
  CpuFeatures f;
#if defined(__x86_64__)
  f.name = brand();
  const bool base = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
  f.avx512_vnni = base && __builtin_cpu_supports("avx512vnni");
  f.avx512_bf16 = base && __builtin_cpu_supports("avx512bf16");
  f.amx_int8 = f.avx512_vnni && has_tiles() && may_use_tiles();
  const bool intel = __builtin_cpu_is("intel");
  f.fetches_soon = intel;
  f.fast_bf16 = f.avx512_bf16 && !intel;
  f.drops_prefetches = __builtin_cpu_is("amd");
  f.fetches_near = f.drops_prefetches && first_level_kilobytes() >= 48;
#else
  f.name = "not x86-64";
#endif
  return f;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace forerun
