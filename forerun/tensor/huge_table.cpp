#include "forerun/tensor/huge_table.h"

#include <ATen/ATen.h>

#include "forerun/base/huge_pages.h"

namespace forerun {

at::Tensor huge_table(const at::Tensor& t, at::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(t.numel()) * at::elementSize(type);
  const at::Tensor out = at::from_blob(
      allocate_huge(bytes), t.sizes(), [bytes](void* at) { free_huge(at, bytes); }, type);
  return out.copy_(t.detach());
}

}  // namespace forerun
