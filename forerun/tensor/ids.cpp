#include "forerun/tensor/ids.h"

#include <ATen/ATen.h>

namespace forerun {

at::Tensor ids_on(const at::Device& device, const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).to(device);
}

}  // namespace forerun
