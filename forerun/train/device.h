#pragma once

#include <c10/core/Device.h>

#include <string>

namespace forerun {

/// The device of TrainOptions::device.
/// @throws std::invalid_argument  not such a name, or no such device here
at::Device device_of(const std::string& name);

}  // namespace forerun
