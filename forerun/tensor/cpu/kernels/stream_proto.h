#pragma once
#include <cstdint>
namespace forerun::kernel {
struct Range { const char* begin; const char* end; };
struct Stream {
  const Range* range; const Range* last; const char* at; const char* end; std::int64_t lead; std::int64_t most;
  inline __attribute__((always_inline)) void fetch(std::int64_t n) {
    if (lead >= most) return;
    const std::int64_t have = (end - at) / 64;
    if (have < n) { lead += have; for (; at < end; at += 64) __builtin_prefetch(at, 0, 2); if (range == last) return; n -= have; ++range; at = range->begin; end = range->end; }
    lead += n;
    for (; n > 0; --n, at += 64) __builtin_prefetch(at, 0, 2);
  }
  inline void consumed(std::int64_t n) {
    lead -= n;
    if (lead >= 0) return;
    std::int64_t skip = -lead; lead = 0;
    const std::int64_t have = (end - at) / 64;
    if (have < skip) { at = end; if (range == last) return; skip -= have; ++range; at = range->begin; end = range->end; }
    at += skip * 64;
  }
};
extern thread_local Stream stream;
}
