#pragma once

#include <vector>

#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun {

/// All kinds that this processor runs, the fastest first.
std::vector<Kernels> runnable_kernels();

/// While it lives, kernels() is another kind: for tests. No pass may run meanwhile, and what was
/// packed under one kind may be read under the other.
class ForcedKernels {
 public:
  explicit ForcedKernels(const Kernels& use) noexcept;
  ~ForcedKernels();
  ForcedKernels(const ForcedKernels&) = delete;
  ForcedKernels& operator=(const ForcedKernels&) = delete;

 private:
  const Kernels* before_;
};

}  // namespace forerun
