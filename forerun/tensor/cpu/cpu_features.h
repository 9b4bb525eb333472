#pragma once

#include <string>

namespace forerun {

/// Features of this processor that the kernels of this folder use.
struct CpuFeatures {
  std::string name;          ///< the processor's name
  bool avx2 = false;         ///< with FMA and F16C
  bool avx512_vnni = false;  ///< int8 products (with AVX-512 F, BW, DQ and VL)
  bool avx512_bf16 = false;  ///< bf16 products
  bool amx_int8 = false;     ///< int8 products of tiles, which the system lets this process use
  /// Whether bf16 products are faster than two float32 products. Intel's are not: Emerald Rapids
  /// makes one in two cycles, and four of float32.
  bool fast_bf16 = false;
  /// AMD's: its own prefetchers follow a stream of weights faster than instructions that prefetch,
  /// of which it drops those that find the queues full.
  bool drops_prefetches = false;
  /// AMD's with a first-level data cache of 48 KB (Zen 5): weights that are fetched ahead go there,
  /// not to the second level.
  bool fetches_near = false;
  /// Intel's: weights that are fetched ahead are those that a product comes to soon, into the
  /// second level, not all of the next panel.
  bool fetches_soon = false;

  /// Whether there are kernels for it (kernels/kernels.h).
  bool int8() const noexcept { return avx512_vnni || avx2; }
};

/// Detected once.
const CpuFeatures& cpu_features();

}  // namespace forerun
