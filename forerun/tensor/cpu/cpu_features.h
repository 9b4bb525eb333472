#pragma once

#include <string>

namespace forerun {

/// What the processor this program runs on offers to the kernels of this folder.
struct CpuFeatures {
  std::string name;          ///< as the processor calls itself
  bool avx512_vnni = false;  ///< int8 products (with AVX-512 F, BW, DQ and VL): what `int8` needs
  bool avx512_bf16 = false;  ///< bf16 products
  /// They are faster than two float32 products. Intel's are not: Emerald Rapids makes one in two
  /// cycles, and four of float32.
  bool fast_bf16 = false;

  bool int8() const noexcept { return avx512_vnni; }
};

/// Read once.
const CpuFeatures& cpu_features();

}  // namespace forerun
