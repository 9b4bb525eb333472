#include "forerun/models/weights_digest.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace forerun {

std::string digest_of(std::span<const ModelWeight> weights) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const ModelWeight& w : weights) {
    const at::Tensor x = w.tensor->detach().to(at::kBFloat16).contiguous().view(at::kShort);
    const auto* const values = x.const_data_ptr<std::int16_t>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      hash = (hash ^ static_cast<std::uint16_t>(values[i])) * 0x100000001b3ULL;
    }
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace forerun
