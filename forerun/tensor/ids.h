#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace forerun {

/// Numbers as an int64 tensor on a device: rows to select, tokens.
at::Tensor ids_on(const at::Device& device, const std::vector<std::int64_t>& values);

}  // namespace forerun
