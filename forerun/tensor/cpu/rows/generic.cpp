#include "forerun/tensor/cpu/rows/row_loops.h"

namespace forerun::rows {

const Kernels* generic_kernels() {
  static constexpr Kernels kTable = table("generic");
  return &kTable;
}

}  // namespace forerun::rows
