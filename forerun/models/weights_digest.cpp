#include "forerun/models/weights_digest.h"

#include <ATen/ATen.h>

#include "forerun/base/hash.h"

namespace forerun {

std::string digest_of(std::span<const ModelWeight> weights) {
  Hash hash;
  for (const ModelWeight& w : weights) {
    const at::Tensor x = w.tensor->detach().to(at::kCPU, at::kBFloat16).contiguous();
    hash.add(std::as_bytes(
        std::span(x.const_data_ptr<at::BFloat16>(), static_cast<std::size_t>(x.numel()))));
  }
  return "xxh3:" + hash.text();
}

}  // namespace forerun
