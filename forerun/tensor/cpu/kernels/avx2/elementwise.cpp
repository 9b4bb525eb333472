#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx2/vectors.h"
#include "forerun/tensor/cpu/kernels/shared/table.h"

#endif
